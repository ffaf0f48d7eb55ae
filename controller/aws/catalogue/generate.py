#!/usr/bin/env python3
"""Join public EC2 data into ec2.tsv, the instance catalogue that the crate embeds.

    pip download moto==5.2.5 --no-deps
    ./generate.py moto-5.2.5-py3-none-any.whl [--figures figures.tsv] [--output ec2.tsv]

The facts (what DescribeInstanceTypes and DescribeInstanceTypeOfferings answer) come from moto's EC2 data, given as its
wheel; figures.tsv adds what those calls do not tell: price, branch network interfaces, baseline bandwidth. Standard
library only. Same input, same bytes; types are sorted by name.
"""
import argparse, gzip, io, json, operator, pathlib, re, zipfile

HERE = pathlib.Path(__file__).parent
TYPES = "moto/ec2/resources/instance_types.json.gz"
OFFERINGS = "moto/ec2/resources/instance_type_offerings/availability-zone/"
ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
# One digit holds the zones of a region that offer a type, the first zone in the lowest bit: at most six zones.
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
COLUMNS = ["name", "architecture", "vcpus", "memory-mib", "manufacturer", "clock-mhz", "features", "hypervisor", "flags",
           "cards", "ipv4-per-interface", "efa-interfaces", "ebs-mbps", "storage-gb", "gpus", "neuron", "inference",
           "usd-per-hour", "branch-interfaces", "network-mbps", "zones"]


def read(archive, name):
    return json.load(gzip.open(io.BytesIO(archive.read(name))))


def architecture(info):
    known = [ARCHITECTURES[a] for a in info["ProcessorInfo"]["SupportedArchitectures"] if a in ARCHITECTURES]
    return known[0] if known else None


def flags(info):
    network, storage = info["NetworkInfo"], info.get("InstanceStorageInfo", {})
    strategies, usage = info["PlacementGroupInfo"]["SupportedStrategies"], info["SupportedUsageClasses"]
    letters = {
        "a": network["EnaSupport"] != "unsupported",
        "b": info["BareMetal"],
        "c": "capacity-block" in usage,
        "e": network["EncryptionInTransitSupported"],
        "k": "cluster" in strategies,
        "n": info["NitroEnclavesSupport"] == "supported",
        "o": "on-demand" in usage,
        "p": "partition" in strategies,
        "r": "spread" in strategies,
        "s": "spot" in usage,
        "v": storage.get("NvmeSupport", "unsupported") != "unsupported",
    }
    return "".join(letter for letter, is_set in letters.items() if is_set)


def cards(network):
    """Interfaces per network card, runs as COUNT*INTERFACES: `2,1` or `32*2`."""
    assert network["DefaultNetworkCardIndex"] == 0
    by_index = sorted(network["NetworkCards"], key=lambda card: card["NetworkCardIndex"])
    counts = [card["MaximumNetworkInterfaces"] for card in by_index]
    if len(counts) > 1 and len(set(counts)) == 1:
        return f"{len(counts)}*{counts[0]}"
    return ",".join(map(str, counts))


def devices(entries, fields):
    return ";".join(":".join(str(field(entry)) for field in fields) for entry in entries)


def memory(entry):
    return entry.get("MemoryInfo", {}).get("SizeInMiB", 0)


def row(info, figure, zones):
    network, processor, ebs = info["NetworkInfo"], info["ProcessorInfo"], info["EbsInfo"]
    clock = processor.get("SustainedClockSpeedInGhz")
    optimized = ebs["EbsOptimizedSupport"] == "default" and ebs.get("EbsOptimizedInfo")
    storage = info.get("InstanceStorageInfo", {})
    name, manufacturer, count = (operator.itemgetter(key) for key in ("Name", "Manufacturer", "Count"))
    cores = lambda entry: entry["CoreInfo"]["Count"]
    return [
        info["InstanceType"], architecture(info), info["VCpuInfo"]["DefaultVCpus"], info["MemoryInfo"]["SizeInMiB"],
        processor["Manufacturer"], "" if clock is None else round(clock * 1000),
        ",".join(sorted(processor.get("SupportedFeatures", []))), info.get("Hypervisor", ""), flags(info), cards(network),
        network["Ipv4AddressesPerInterface"], network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        optimized["MaximumBandwidthInMbps"] if optimized else "", storage.get("TotalSizeInGB", ""),
        devices(info.get("GpuInfo", {}).get("Gpus", []), [name, manufacturer, count, memory]),
        devices(info.get("NeuronInfo", {}).get("NeuronDevices", []), [name, count, cores, memory]),
        devices(info.get("InferenceAcceleratorInfo", {}).get("Accelerators", []), [name, manufacturer, count, memory]),
        *figure, zones,
    ]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("wheel", type=pathlib.Path)
    arguments.add_argument("--figures", type=pathlib.Path, default=HERE / "figures.tsv")
    arguments.add_argument("--output", type=pathlib.Path, default=HERE / "ec2.tsv")
    options = arguments.parse_args()

    lines = options.figures.read_text().splitlines()
    figures = {name: values for name, *values in (line.split("\t") for line in lines if not line.startswith("#"))}
    (priced_on,) = set(re.findall(r"\d{4}-\d\d-\d\d", "\n".join(line for line in lines if line.startswith("#"))))

    with zipfile.ZipFile(options.wheel) as archive:
        types = read(archive, TYPES)
        version, *taken_on = options.wheel.name.split("-")[1], *archive.getinfo(TYPES).date_time[:3]
        files = sorted(name for name in archive.namelist() if name.startswith(OFFERINGS) and name.endswith(".json.gz"))
        offered = {name[len(OFFERINGS):-len(".json.gz")]: read(archive, name) for name in files}

    regions, zones = [], {name: [] for name in types}
    for region, entries in offered.items():
        letters = sorted({entry["Location"].removeprefix(region) for entry in entries})
        assert len(letters) <= 6 and all(len(letter) == 1 for letter in letters), region
        regions.append(f"{region}={''.join(letters)}")
        where = dict.fromkeys(types, 0)
        for entry in entries:
            where[entry["InstanceType"]] |= 1 << letters.index(entry["Location"].removeprefix(region))
        for name, bits in where.items():
            zones[name].append(DIGITS[bits])

    launchable = {name for name, info in types.items() if architecture(info) and "hvm" in info["SupportedVirtualizationTypes"]}
    rows = [row(types[name], figures.get(name, ["", "", ""]), "".join(zones[name])) for name in sorted(launchable)]
    priced = sum(1 for name in launchable if figures.get(name, [""])[0])
    left_out = ", ".join(sorted(set(figures) - set(types))) or "none"
    header = [
        "# EC2 instance types. Written by generate.py; do not edit.",
        f"# facts: moto {version} (Apache-2.0), data of {'-'.join(f'{part:02}' for part in taken_on)}: DescribeInstanceTypes (hvm; x86_64, arm64) and DescribeInstanceTypeOfferings",
        f"# prices: us-east-1, Linux on demand, {priced_on}, from figures.tsv with branch interfaces and baseline bandwidth",
        f"# types: {len(rows)}, of which {len(launchable & set(figures))} have figures and {priced} a price; in figures.tsv without facts: {left_out}",
        "# flags: a ENA, b bare metal, c capacity blocks, e encryption in transit, k cluster placement, n Nitro Enclaves, o on demand, p partition placement, r spread placement, s spot, v NVMe",
        "# devices: gpus and inference name:manufacturer:count:MiB each, neuron name:count:cores each:MiB each; several by `;`",
        "# zones: one digit per region in the order of the next line, a bit per zone",
        "#regions\t" + "\t".join(regions),
        "#" + "\t".join(COLUMNS),
    ]
    body = ["\t".join(map(str, entry)) for entry in rows]
    assert all(line.count("\t") == len(COLUMNS) - 1 for line in body)
    options.output.write_text("\n".join(header + body) + "\n")
    print(f"{options.output}: {len(rows)} types, {priced} with a price, {len(regions)} regions")


if __name__ == "__main__":
    main()

//! What systemd 252 and the parser of bootstrap.sh were seen to make of texts.

use super::powershell::{split_command_line, statements};
use super::shell::commands;
use super::systemd::{environment_file, last, split_value};
use super::unit::{command_line, environment_directive, exec_start, unresolved};

fn argv_of_file(file: &str, exec: &str) -> Vec<String> {
    let exec = if exec.starts_with('/') { exec.to_owned() } else { format!("/bin/k {exec}") };
    let variables = environment_file(file);
    exec_start(&exec, &variables, &unresolved).unwrap().into_iter().skip(1).map(|word| word.text).collect()
}

fn argv(file: &str) -> Vec<String> {
    argv_of_file(file, "$ARGS")
}

/// The rows were measured with systemd 252: an environment file with `ARGS`, and `ExecStart=… $ARGS`.
#[test]
fn environment_files_as_systemd_252_splits_them() {
    let table: &[(&str, &[&str])] = &[
        (
            r#"ARGS=--v=2 --node-labels="a=b,c=d" --register-with-taints="k:NoExecute""#,
            &["--v=2", "--node-labels=a=b,c=d", "--register-with-taints=k:NoExecute"],
        ),
        // Why nodeadm does not wrap the value in quotes: the inner ones end the outer, and what follows is fused.
        (
            r#"ARGS="--v=2 --node-labels="a=b,c=d" --register-with-taints="k:NoExecute"""#,
            &["--v=2", "--node-labels=a=b,c=d --register-with-taints=k:NoExecute"],
        ),
        (
            "ARGS=--register-with-taints=a=b:NoSchedule, c=d:NoSchedule",
            &["--register-with-taints=a=b:NoSchedule,", "c=d:NoSchedule"],
        ),
        (r#"ARGS=--register-with-taints=\"k:NoExecute\""#, &["--register-with-taints=k:NoExecute"]),
        (r#"ARGS=--register-with-taints='"k:NoExecute"'"#, &[r#"--register-with-taints="k:NoExecute""#]),
        (
            r#"ARGS=--register-with-taints="k:NoExecute --max-pods=5"#,
            &["--register-with-taints=k:NoExecute --max-pods=5"],
        ),
        ("ARGS=--a=$FOO --b=${BAR}", &["--a=$FOO", "--b=${BAR}"]),
        ("ARGS=--a=1\n--b=2", &["--a=1"]),
        ("ARGS=--a=1\\\n --b=2", &["--a=1", "--b=2"]),
        ("ARGS=", &[]),
        ("# ARGS=--a\nARGS=--b", &["--b"]),
        ("ARGS=--a\nARGS=--b", &["--b"]),
        (" ARGS = --a  ", &["--a"]),
        ("ARGS='--a --b' --c", &["--a", "--b--c"]),
        ("export ARGS=--a", &[]),
        ("ARGS=--a \"\" --b", &["--a", "", "--b"]),
        ("ARGS=--a '", &["--a", ""]),
    ];
    for (file, expected) in table {
        assert_eq!(argv(file), *expected, "{file}");
    }
}

/// Blanks at the end of a line are dropped, but not those before a backslash: taken from the code of systemd 252, which
/// gave the same as this module for 20,000 generated files and directives.
#[test]
fn blanks_at_the_end_of_a_line() {
    let value = |file: &str| super::text(&environment_file(file)[0].value);
    assert_eq!(value("A=x \t\nB=y"), "x");
    assert_eq!(value("A=x\\ \t\nB=y"), "x ");
    assert_eq!(value("A=x \\\n\nB=y"), "x ");
}

#[test]
fn braces_keep_a_value_in_one_piece() {
    assert_eq!(argv_of_file("ARGS=--a \"b\"", "${ARGS}"), [r#"--a "b""#]);
    assert_eq!(argv_of_file("ARGS=x", "/bin/k --y=${ARGS} $$HOME $UNSET ${UNSET}"), ["--y=x", "$HOME", ""]);
}

#[test]
fn drop_ins_as_systemd_252_splits_them() {
    let argv = |text: &str| {
        let variables = environment_directive(text, &unresolved);
        let value = last(&variables, "EXTRA").map(|variable| split_value(&variable.value)).unwrap_or_default();
        value.into_iter().map(|word| word.text).collect::<Vec<_>>()
    };
    assert_eq!(
        argv(r#"'EXTRA=--node-labels="a=b,c=d" --register-with-taints="k:NoExecute"'"#),
        ["--node-labels=a=b,c=d", "--register-with-taints=k:NoExecute"]
    );
    assert_eq!(argv("'EXTRA=--node-labels=pct=%H --x=%%y'"), ["--node-labels=pct=%H", "--x=%y"]);
    assert_eq!(argv("'EXTRA=--a='b' --c'"), ["--a=b", "--c"]);
    assert!(environment_directive("'EXTRA=--a", &unresolved).is_empty());
    assert_eq!(environment_directive("A=b 'EXTRA=--a", &unresolved).len(), 1, "what stands before the fault counts");
}

#[test]
fn units_with_drop_ins() {
    let argv = |unit: &str| command_line(unit, &|_| None, &|letter| (letter == 'H').then(|| "host".to_owned()));
    let unit = "# /usr/lib/systemd/system/k.service\n[Service]\nEnvironment=A=%H%%\\\n B=2\\\\\nExecStart=/k $A ${B} \\q \\; %z\n";
    assert_eq!(argv(unit).unwrap(), ["/k", "host%", "2\\", "\\q", ";", "%z"]);
    let cut =
        format!("{unit}ExecStart=/other \\\n# /etc/systemd/system/k.service.d/10.conf\nExecStart=/not/in/a/section\n");
    assert_eq!(argv(&cut).unwrap_err().to_string(), "the unit has 2 lines ExecStart");
    let reset = format!(
        "{unit}\n# /etc/systemd/system/k.service.d/10.conf\n[Service]\nUnsetEnvironment=B\nExecStart=\nExecStart=@/k name $A x${{B}}\n"
    );
    assert_eq!(argv(&reset).unwrap(), ["/k", "host%", "x"]);
    assert_eq!(argv("[Service]\nExecStart=:/k $A\n").unwrap(), ["/k", "$A"]);
    assert_eq!(argv("[Service]\nExecStart=/k 'a\n").unwrap_err().to_string(), "systemd refuses `ExecStart=/k 'a`");
    assert!(argv("[Service]\nEnvironmentFile=/none\nExecStart=/k\n").is_err());
}

fn shell(script: &str) -> Vec<Vec<String>> {
    commands(script).into_iter().map(|it| it.words.into_iter().map(|word| word.text).collect()).collect()
}

#[test]
fn shell_commands() {
    assert_eq!(
        shell("#!/bin/bash -xe\nset -e # no\nexec > >(tee /x) 2>&1\nA=b; f \"$A\" '$A' \\\n  c\\ d\n"),
        [vec!["set", "-e"], vec!["exec"], vec!["f", "b", "$A", "c d"]]
    );
    assert_eq!(
        shell("cat <<EOF > /x\n/etc/eks/bootstrap.sh no\nEOF\ntrue && g || h"),
        [vec!["cat"], vec!["true"], vec!["g"], vec!["h"]]
    );
    assert_eq!(shell("X='a b'; f $X \"$X\" $(id -u) ${Y}"), [vec!["f", "a", "b", "a b", "$(…)", "${Y}"]]);
    assert!(commands("f $(x)")[0].words[1].is_open);
}

#[test]
fn powershell_statements() {
    let text = "<powershell>\n[string]$F = \"$env:P\\Start-EKSBootstrap.ps1\"\n$c = 'x'\n& $F -EKSClusterName $c `\n  -KubeletExtraArgs '--a=\"b\" it''s' # end\n</powershell>";
    let statements = statements(text);
    let call = statements.iter().find(|it| it[0].text == "&").unwrap();
    let words: Vec<_> = call.iter().map(|word| word.text.as_str()).collect();
    assert_eq!(
        words,
        ["&", "$env:P\\Start-EKSBootstrap.ps1", "-EKSClusterName", "x", "-KubeletExtraArgs", "--a=\"b\" it's"]
    );
}

#[test]
fn powershell_expressions() {
    let argument = |script: &str| {
        let statements = statements(script);
        let word = statements.last().and_then(|words| words.last().cloned()).unwrap();
        (word.text, word.is_open)
    };
    for (script, expected) in [
        ("$a = 'x'; $a += ' y'; f $a", "x y"),
        ("$a = 'x'; $a = $a + \" $a\"; f $a", "x x"),
        ("$a = 'x'\n$a = 'y'\nf $A", "y"),
        ("${a}='x'; f \"${a}b\"", "xb"),
        ("f ('a' + 'b')", "ab"),
        ("f (('a','b') -join ',')", "a,b"),
        ("f (-join ('a', 'b'))", "ab"),
        ("$l = @('a'\n 'b'; 'c'); $l += 'd'; f ($l -join \" \")", "a b c d"),
        ("$l = 'a',\n  'b'\nf \"$l\"", "a b"),
        ("[string[]]$l = 'a', 'b'\nf $l", "a b"),
        ("f @'\na \"$b\"\nc\n'@", "a \"$b\"\nc"),
        ("$b = 'x'; f @\"\na $b\n\"@", "a x"),
        ("f -a:b", "b"),
        ("f \"a $b c\"", "a  c"),
        ("f (\"unclosed", "(unclosed"),
    ] {
        assert_eq!(argument(script), (expected.to_owned(), false), "{script}");
    }
    for script in [
        "$a = Get-Content x; f $a",
        "$a = 'x'.Trim(); f $a",
        "$a = 'x'; $a = Get-Date; f $a",
        "f ('a' -f 1)",
        "f $(Get-Date)",
        "f \"a $(Get-Date) b\"",
        "f @unknown",
        "f \"a $env:B\"",
        "f \"a $PSScriptRoot\"",
        ". C:/x.ps1\nf \"a $b\"",
        "foreach ($b in Get-Service) { f \"a $b\"",
    ] {
        let (text, is_open) = argument(script);
        assert!(is_open || text == "@unknown", "{script}: {text}");
    }
    let statements = statements("$p = @{ A = 'x'; 'B' = 'y', 'z' }\n$p += @{C = 1}\nf @p");
    let words: Vec<_> = statements.last().unwrap().iter().map(|word| word.text.as_str()).collect();
    assert_eq!(words, ["f", "-A", "x", "-B", "y z", "-C", "1"]);
}

#[test]
fn windows_command_lines() {
    let split = |line: &str| split_command_line(line).into_iter().map(|word| word.text).collect::<Vec<_>>();
    assert_eq!(split(r#"--node-labels="k=v,a=b" --max-pods=110"#), ["--node-labels=k=v,a=b", "--max-pods=110"]);
    assert_eq!(split(r#"--resolv-conf="" a\\b "c\"d" 'e f'"#), ["--resolv-conf=", r"a\\b", "c\"d", "'e", "f'"]);
}

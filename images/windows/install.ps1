# Installs the agent of this folder as a service of Windows. Run it as an administrator; again for an upgrade.
#Requires -RunAsAdministrator
$ErrorActionPreference = 'Stop'

$folder = Join-Path $env:ProgramFiles 'Muster'
$agent = Join-Path $folder 'muster-agent.exe'

# A program that runs cannot be replaced.
$service = Get-Service -Name 'muster-agent' -ErrorAction SilentlyContinue
if ($service) { $service | Stop-Service -Force }

New-Item -ItemType Directory -Path $folder -Force | Out-Null
foreach ($file in 'muster-agent.exe', 'verdicts.md', 'agent.md', 'LICENSE', 'uninstall.ps1') {
    Copy-Item -Path (Join-Path $PSScriptRoot $file) -Destination $folder -Force
}

# Everything else is the program's own business. It is not started: this may be an image under construction.
& $agent service install
if ($LASTEXITCODE -ne 0) { throw "muster-agent service install: exit code $LASTEXITCODE" }

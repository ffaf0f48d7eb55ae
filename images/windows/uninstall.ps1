# Takes the agent off this machine. Run it as an administrator.
#Requires -RunAsAdministrator
$ErrorActionPreference = 'Stop'

$folder = Join-Path $env:ProgramFiles 'Muster'
& (Join-Path $folder 'muster-agent.exe') service uninstall
if ($LASTEXITCODE -ne 0) { throw "muster-agent service uninstall: exit code $LASTEXITCODE" }
Remove-Item -Recurse -Force $folder

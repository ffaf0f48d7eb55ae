# Installs the agent in an EKS image of Windows, judges the image, and makes it forget that it has run.
$ErrorActionPreference = 'Stop'

# A program that ends with another code than 0 is no error to PowerShell.
function Invoke-Program([string]$Program, [string[]]$Arguments) {
    & $Program $Arguments
    if ($LASTEXITCODE -ne 0) { throw "$Program ${Arguments}: exit code $LASTEXITCODE" }
}

Expand-Archive -Path C:\Windows\Temp\muster-agent.zip -DestinationPath C:\Windows\Temp\muster-agent -Force
$unpacked = Get-ChildItem -Directory C:\Windows\Temp\muster-agent | Select-Object -First 1
& (Join-Path $unpacked.FullName 'install.ps1')
Remove-Item -Recurse -Force C:\Windows\Temp\muster-agent
Remove-Item -Force C:\Windows\Temp\muster-agent.zip

# A finding of severity `error` ends the build.
$agent = "$env:ProgramFiles\Muster\muster-agent.exe"
Invoke-Program $agent @('validate', '--image', '--ami-family', 'Windows2022', '--arch', 'amd64')

# EC2Launch runs at the first boot of each instance again.
$launch = "$env:ProgramFiles\Amazon\EC2Launch\EC2Launch.exe"
Invoke-Program $launch @('reset', '--block')
Invoke-Program $launch @('sysprep', '--shutdown=false', '--block')

<powershell>
# For the time of the build: WinRM over TLS, so that Packer can work on this machine.
$ErrorActionPreference = 'Stop'
$certificate = New-SelfSignedCertificate -DnsName packer -CertStoreLocation Cert:\LocalMachine\My
Get-ChildItem WSMan:\localhost\Listener | Remove-Item -Recurse -Force
New-Item -Path WSMan:\localhost\Listener -Transport HTTPS -Address * -CertificateThumbPrint $certificate.Thumbprint -Force
Set-Item -Path WSMan:\localhost\Service\Auth\Basic -Value $true
New-NetFirewallRule -DisplayName 'WinRM over TLS, for Packer' -Direction Inbound -Protocol TCP -LocalPort 5986 -Action Allow
Set-Service -Name WinRM -StartupType Automatic
Restart-Service -Name WinRM
</powershell>

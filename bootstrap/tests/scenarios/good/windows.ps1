<powershell>
[string]$EKSBinDir = "$env:ProgramFiles\Amazon\EKS"
[string]$EKSBootstrapScriptName = 'Start-EKSBootstrap.ps1'
[string]$EKSBootstrapScriptFile = "$EKSBinDir\$EKSBootstrapScriptName"
& $EKSBootstrapScriptFile -EKSClusterName 'c' -APIServerEndpoint 'https://x.gr7.eu-west-1.eks.amazonaws.com' -Base64ClusterCA '@CA@' -DNSClusterIP '10.100.0.10' -KubeletExtraArgs '--node-labels="a=b" --register-with-taints="k=v:NoSchedule"' 3>&1 4>&1 5>&1 6>&1
</powershell>

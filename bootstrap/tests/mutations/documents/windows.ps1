<powershell>
$env:AWS_SECRET_ACCESS_KEY = "wJ4lrX9tnF3MIk7MD8NGb2PxRf6CYz5hQ1"
$Password = 'hx7Tq2Mz9kLw4Rb8Vn3Jc6Pd'
[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"
& $EKSBootstrapScriptFile -EKSClusterName 'shop' -APIServerEndpoint 'https://abc.eks.amazonaws.com' -Base64ClusterCA 'LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=' -KubeletExtraArgs '--node-labels="team=a" --register-with-taints="karpenter.sh/unregistered:NoExecute" --max-pods=110' -DNSClusterIP '10.100.0.10'
</powershell>

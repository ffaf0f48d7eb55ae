<powershell>
Start-Service AmazonSSMAgent
& "C:\Program Files\Amazon\EKS\Start-EKSBootstrap.ps1" -EKSClusterName c -APIServerEndpoint https://x.gr7.eu-west-1.eks.amazonaws.com -Base64ClusterCA @CA@
</powershell>
<persist>true</persist>

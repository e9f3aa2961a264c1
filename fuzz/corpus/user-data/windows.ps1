<powershell>
Write-Host hi
</powershell>

// Hosts made of network namespaces. This entry point imports no test runner.
export { createHosts } from './hosts/create-hosts.ts';
export type { TestHosts } from './hosts/create-hosts.ts';
export { hostsAvailability } from './hosts/hosts-availability.ts';
export type { HostsAvailability } from './hosts/hosts-availability.ts';
export type { LinkRate, LinkTraffic, TestHost } from './hosts/test-host.ts';

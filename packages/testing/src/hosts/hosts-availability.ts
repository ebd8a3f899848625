import { once } from 'node:events';
import { createHosts } from './create-hosts.ts';

/** Whether test hosts can be made, and if not, why. */
export type HostsAvailability =
  | { readonly available: true }
  | { readonly available: false; readonly reason: string };

/** Finds out whether test hosts can be made on this machine, by making one and running a program there. */
export async function hostsAvailability(): Promise<HostsAvailability> {
  if (process.platform !== 'linux') {
    return { available: false, reason: `network namespaces need Linux, not ${process.platform}` };
  }
  if (process.getuid?.() !== 0) {
    return { available: false, reason: 'network namespaces need the rights of root' };
  }
  try {
    await using made = await createHosts(1);
    const [host] = made.hosts;
    await host?.setRate('1gbit');
    const probe = host?.spawn('true', [], { stdio: 'ignore' });
    const [code] = probe === undefined ? [1] : await once(probe, 'exit');
    if (code === 0) return { available: true };
    return { available: false, reason: `a program on a test host ended with code ${code}` };
  } catch (error) {
    return { available: false, reason: error instanceof Error ? error.message : String(error) };
  }
}

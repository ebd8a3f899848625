import { randomBytes } from 'node:crypto';
import { namespaceName, removeLeftNamespaces, removeNamespace } from './namespaces.ts';
import { networkCommand } from './network-command.ts';
import { LINK, TestHost } from './test-host.ts';

/** Hosts on one machine. When they are disposed of, their processes end. */
export interface TestHosts extends AsyncDisposable {
  readonly hosts: readonly TestHost[];
}

const MAX_HOSTS = 4;
const BRIDGE = 'switch';

/**
 * Makes `count` hosts on one machine. They are network namespaces, linked by a bridge in a separate namespace,
 * so the network of this machine does not change. They share its files, its /dev/shm and its process ids. When
 * they are disposed of, their processes end and the namespaces are removed. Namespaces that a killed run has
 * left are removed by the next run. Needs Linux, root, and `ip` and `tc` of iproute2; hostsAvailability tells
 * whether they are there.
 *
 *     host0 10.77.0.1 ──┐
 *     host1 10.77.0.2 ──┼── switch
 *     host2 10.77.0.3 ──┘
 */
export async function createHosts(count: number): Promise<TestHosts> {
  if (!Number.isInteger(count) || count < 1 || count > MAX_HOSTS) {
    throw new RangeError(`${count} test hosts; there can be 1 to ${MAX_HOSTS}`);
  }
  await removeLeftNamespaces();
  const set = randomBytes(3).toString('hex');
  const made: string[] = [];
  const dispose = async (): Promise<void> => {
    // The switch was made first, so it is removed last. Its ports disappear with the hosts.
    for (const namespace of made.splice(0).reverse()) await removeNamespace(namespace);
  };
  const make = async (part: string): Promise<string> => {
    const namespace = namespaceName(set, part);
    await networkCommand('ip', `netns add ${namespace}`);
    made.push(namespace);
    return namespace;
  };
  try {
    const middle = await make(BRIDGE);
    await networkCommand('ip', `-n ${middle} link add ${BRIDGE} type bridge`);
    await networkCommand('ip', `-n ${middle} link set ${BRIDGE} up`);
    const hosts: TestHost[] = [];
    for (let index = 0; index < count; index++) {
      hosts.push(await connectHost(index, await make(`host${index}`), middle));
    }
    return { hosts, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

async function connectHost(index: number, namespace: string, middle: string): Promise<TestHost> {
  const address = `10.77.0.${index + 1}`;
  const port = `port${index}`;
  const commands = [
    `link add ${LINK} netns ${namespace} type veth peer name ${port} netns ${middle}`,
    `-n ${middle} link set ${port} master ${BRIDGE} up`,
    `-n ${namespace} address add ${address}/24 dev ${LINK}`,
    `-n ${namespace} link set ${LINK} up`,
    `-n ${namespace} link set lo up`,
  ];
  for (const command of commands) await networkCommand('ip', command);
  return new TestHost(`host${index}`, address, namespace, { namespace: middle, port });
}

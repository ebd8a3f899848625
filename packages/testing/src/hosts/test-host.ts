import { spawn, type ChildProcess, type SpawnOptions } from 'node:child_process';
import { processIdsOf } from './namespaces.ts';
import { networkCommand } from './network-command.ts';

/** A rate in the notation of `tc`, such as `1gbit` or `200mbit`. */
export type LinkRate = `${number}${'k' | 'm' | 'g'}bit`;

/** The traffic of a host's link since it was made. Whole Ethernet frames are counted. */
export interface LinkTraffic {
  readonly sentBytes: number;
  readonly receivedBytes: number;
}

/** A switch's namespace and its port to a host. */
export interface SwitchPort {
  readonly namespace: string;
  readonly port: string;
}

/** The name of every test host's link to the others. */
export const LINK = 'eth0';

/** Sets the host name, then replaces the shell by the program, so that its process id is the program's. */
const BECOME = 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"';

/** A host that is a network namespace of this machine, with its own address, link and name. */
export class TestHost {
  /** The name that os.hostname() returns in its processes. */
  readonly name: string;
  readonly address: string;
  readonly #namespace: string;
  readonly #port: SwitchPort;

  constructor(name: string, address: string, namespace: string, port: SwitchPort) {
    this.name = name;
    this.address = address;
    this.#namespace = namespace;
    this.#port = port;
  }

  /** Starts a program on the host. Signals to the child process reach the program itself. */
  spawn(command: string, args: readonly string[], options: SpawnOptions = {}): ChildProcess {
    const enter = ['netns', 'exec', this.#namespace, 'unshare', '--uts'];
    return spawn('ip', [...enter, 'sh', '-c', BECOME, this.name, command, ...args], options);
  }

  /** Limits the rate at which the host sends, by a token bucket. Without a rate, the limit is removed. */
  async setRate(rate: LinkRate | undefined): Promise<void> {
    const at = `dev ${LINK} root`;
    await networkCommand(
      'tc',
      rate === undefined
        ? `-n ${this.#namespace} qdisc del ${at}`
        : `-n ${this.#namespace} qdisc replace ${at} tbf rate ${rate} burst 256kb latency 50ms`,
    );
  }

  /** Unplugs the host at the switch. Connections stay, but nothing comes through. */
  async cut(): Promise<void> {
    await this.#setPort('down');
  }

  /** Plugs the host in again. */
  async restore(): Promise<void> {
    await this.#setPort('up');
  }

  async traffic(): Promise<LinkTraffic> {
    const count = async (counter: string): Promise<number> => {
      const file = `/sys/class/net/${LINK}/statistics/${counter}`;
      return Number(await networkCommand('ip', `netns exec ${this.#namespace} cat ${file}`));
    };
    const [sentBytes, receivedBytes] = await Promise.all([count('tx_bytes'), count('rx_bytes')]);
    return { sentBytes, receivedBytes };
  }

  /** Returns the ids of the processes that run on the host. */
  async processIds(): Promise<readonly number[]> {
    return processIdsOf(this.#namespace);
  }

  async #setPort(state: 'up' | 'down'): Promise<void> {
    const { namespace, port } = this.#port;
    await networkCommand('ip', `-n ${namespace} link set ${port} ${state}`);
  }
}

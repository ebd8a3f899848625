import { spawn, type ChildProcess, type SpawnOptions } from 'node:child_process';
import { processIdsOf } from './namespaces.ts';
import { networkCommand } from './network-command.ts';

/** As `tc` writes it: `1gbit`, `200mbit`. */
export type LinkRate = `${number}${'k' | 'm' | 'g'}bit`;

/** Of a host's link since it was made: whole Ethernet frames. */
export interface LinkTraffic {
  readonly sentBytes: number;
  readonly receivedBytes: number;
}

/** A switch's namespace and its port to a host. */
export interface SwitchPort {
  readonly namespace: string;
  readonly port: string;
}

/** What every test host calls its link to the others. */
export const LINK = 'eth0';

/** Gives the program its own host name, then becomes it, so that its process id is the program's. */
const BECOME = 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"';

/** A host that is a network namespace of this one: an address, a link and a name of its own. */
export class TestHost {
  /** Which its processes are told by os.hostname(). */
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

  /** Starts a program there; signals to the child reach the program itself. */
  spawn(command: string, args: readonly string[], options: SpawnOptions = {}): ChildProcess {
    const enter = ['netns', 'exec', this.#namespace, 'unshare', '--uts'];
    return spawn('ip', [...enter, 'sh', '-c', BECOME, this.name, command, ...args], options);
  }

  /** Limits what it sends, by a token bucket; without a rate the limit goes. */
  async setRate(rate: LinkRate | undefined): Promise<void> {
    const at = `dev ${LINK} root`;
    await networkCommand(
      'tc',
      rate === undefined
        ? `-n ${this.#namespace} qdisc del ${at}`
        : `-n ${this.#namespace} qdisc replace ${at} tbf rate ${rate} burst 256kb latency 50ms`,
    );
  }

  /** Unplugs it at the switch: connections stay, and nothing comes through. */
  async cut(): Promise<void> {
    await this.#setPort('down');
  }

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

  /** Ids of the processes that run there. */
  async processIds(): Promise<readonly number[]> {
    return processIdsOf(this.#namespace);
  }

  async #setPort(state: 'up' | 'down'): Promise<void> {
    const { namespace, port } = this.#port;
    await networkCommand('ip', `-n ${namespace} link set ${port} ${state}`);
  }
}

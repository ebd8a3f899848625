import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MemoryStore } from '@shardwise/collectives/node';
import type { LaunchEnd, LaunchOptions } from '../src/launcher/launch.ts';
import {
  type FromHost,
  parseToHost,
  plainFromHost,
  type ToHost,
} from '../src/launcher/members/host-message.ts';
import { launchMembers } from '../src/launcher/members/launch-members.ts';
import { fromHostRoute, toHostRoute } from '../src/launcher/members/remote-host.ts';
import type { LaunchResult, RankEnd } from '../src/launcher/ranks/rank-handle.ts';
import { BatchSender, receiveBatches } from '../src/relay/batches.ts';
import type { Generation, GenerationNode, HostChange } from '../src/rendezvous/generation.ts';
import type { RunMessage } from '../src/run-state/run-message.ts';
import { initialRunState, type RunState, statesAfter } from '../src/run-state/run-state.ts';
import { head } from './run-fixture.ts';

/** Returns a host of a generation. Its admission also makes its name. */
export function node(
  admission: number,
  ranks: number,
  isLost?: boolean,
): GenerationNode & { readonly admission: number } {
  const name = `host-${admission}`;
  return { id: name, name, address: name, ranks, admission, isLost };
}

/** Returns a generation as the launcher of its first host sees it. */
export async function generationOf(nodes: readonly GenerationNode[]): Promise<Generation> {
  return {
    epoch: 0,
    nodes,
    nodeRank: 0,
    restarts: 0,
    runDirectory: await mkdtemp(join(tmpdir(), 'shardwise-led-')),
    resumeDirectory: undefined,
    transport: undefined,
    store: undefined,
  };
}

/** Returns what a launcher is given that starts ranks of which others can be lost. */
export function launchOptions(
  generation: Generation,
  more: Partial<LaunchOptions> = {},
): LaunchOptions {
  const never = new AbortController().signal;
  return {
    script: 'train.ts',
    args: [],
    form: 'threads',
    generation,
    runId: 'run',
    maxRestarts: 0,
    environment: {},
    transport: {
      choice: { kind: 'tcp', reason: 'the ranks are on several hosts' },
      way: { kind: 'apart' },
      abort: () => undefined,
      close: () => undefined,
    },
    stop: never,
    signal: never,
    onMessage: () => undefined,
    onLine: () => undefined,
    ...more,
  };
}

/** The launcher of another host, without ranks: the test says what they do. */
export class LedHost {
  readonly heard: ToHost[] = [];
  readonly #sender: BatchSender;
  readonly #received: Promise<unknown>;
  readonly #end = new AbortController();

  constructor(store: MemoryStore, admission: number) {
    this.#sender = new BatchSender(fromHostRoute({ store, admission }), 0);
    this.#received = receiveBatches(
      toHostRoute({ store, admission }),
      this.#end.signal,
      (value) => {
        const message = parseToHost(value);
        if (message !== undefined) this.heard.push(message);
      },
    );
  }

  tell(rank: number, told: FromHost['told']): void {
    const start = this.heard.findLast((each) => each.kind === 'start' && each.rank === rank);
    const restarts = start?.kind === 'start' ? start.restarts : 0;
    this.#sender.send(plainFromHost({ rank, restarts, told }));
  }

  ready(rank: number, replicaSize: number | null = 1): void {
    this.tell(rank, { kind: 'member', message: { kind: 'ready', replicaSize } });
  }

  enter(rank: number, epoch: number, step = 0): void {
    this.tell(rank, { kind: 'member', message: { kind: 'entered', epoch, step } });
  }

  commit(rank: number): void {
    this.tell(rank, { kind: 'member', message: { kind: 'committed' } });
  }

  end(rank: number, end: Partial<RankEnd> = {}): void {
    const whole = { exitCode: 0, error: undefined, terminated: false, ...end };
    this.tell(rank, { kind: 'end', end: whole });
    this.tell(rank, { kind: 'closed' });
  }

  /** How many times it was asked to start a rank. */
  starts(rank: number): number {
    return this.heard.filter((each) => each.kind === 'start' && each.rank === rank).length;
  }

  /** The membership of an epoch, as a rank was told of it. */
  membership(rank: number, epoch: number): unknown {
    return this.heard.find(
      (each) =>
        each.kind === 'order' &&
        each.rank === rank &&
        each.order.kind === 'membership' &&
        each.order.epoch === epoch,
    );
  }

  async close(): Promise<void> {
    await this.#sender.close();
    this.#end.abort();
    await this.#received;
  }
}

/** A launcher that leads hosts, and has no ranks of its own. */
export class LedRun {
  readonly notices: string[] = [];
  readonly messages: RunMessage[] = [];
  readonly failures: RankEnd[] = [];
  readonly result: Promise<LaunchResult>;
  restarts = 0;
  readonly #store = new MemoryStore();
  readonly #hosts: LedHost[] = [];
  #onHosts: ((change: HostChange) => void) | undefined;
  readonly #force = new AbortController();

  constructor(
    generation: Generation,
    {
      min = 1,
      maxRestarts = 0,
      ended,
      stop,
    }: {
      readonly min?: number;
      readonly maxRestarts?: number;
      readonly ended?: Promise<LaunchEnd>;
      readonly stop?: AbortSignal;
    } = {},
  ) {
    const options = launchOptions(generation, {
      signal: this.#force.signal,
      onMessage: (message) => void this.messages.push(message),
      onFailure: (_, end) => void this.failures.push(end),
      graceMs: 1,
      ...(ended === undefined ? {} : { ended }),
      ...(stop === undefined ? {} : { stop }),
    });
    this.result = launchMembers(options, {
      min,
      takeRestart: () => {
        if (this.restarts >= maxRestarts) return false;
        this.restarts += 1;
        return true;
      },
      onNotice: (text) => void this.notices.push(text),
      store: this.#store,
      onHosts: (listener) => {
        this.#onHosts = listener;
      },
    });
  }

  host(admission: number): LedHost {
    const host = new LedHost(this.#store, admission);
    this.#hosts.push(host);
    return host;
  }

  get isListening(): boolean {
    return this.#onHosts !== undefined;
  }

  change(change: HostChange): void {
    this.#onHosts?.(change);
  }

  /** The run as its user sees it, who was told of `worldSize` ranks at the start. */
  state(worldSize: number): RunState {
    return this.messages.reduce(
      (state, message) => statesAfter(state, message).at(-1) ?? state,
      initialRunState({ ...head, worldSize }),
    );
  }

  /** Ends what is left of the run. */
  async close(): Promise<void> {
    for (const host of this.#hosts) {
      for (const message of host.heard) if (message.kind === 'start') host.end(message.rank);
    }
    await this.result.catch(() => undefined);
    await Promise.all(this.#hosts.map((host) => host.close()));
  }
}

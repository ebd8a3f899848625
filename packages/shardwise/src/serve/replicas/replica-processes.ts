import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConfigError } from '@shardwise/core/spec';
import { rankProcessOptions } from '@shardwise/core/node';
import type { Replica } from '@shardwise/serve/node';
import type { ServeOptions } from '../serve-options.ts';
import { parseReplicaMessage, type ToReplica } from './replica-message.ts';

/** How long a replica may take to end after it has been asked to. */
const STOP_MS = 5000;
/** The first and the longest pause before a replica that was lost starts again. The pauses double. */
const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS] = [100, 30_000];

/** A replica in a process of its own, which starts again when it is lost. */
class ReplicaProcess implements Replica {
  url: string | null = null;
  readonly #number: number;
  readonly #options: ServeOptions;
  readonly #tell: (line: string) => void;
  readonly #stopped = new AbortController();
  #child: ChildProcess | undefined;

  constructor(number: number, options: ServeOptions, tell: (line: string) => void) {
    this.#number = number;
    this.#options = options;
    this.#tell = tell;
  }

  /** Resolves to what it says of itself when it listens. Throws ConfigError if it ends before. */
  async start(): Promise<string> {
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
    const child = fork(new URL(`./replica-process.${extension}`, import.meta.url), [], {
      execArgv: [...rankProcessOptions, ...process.execArgv],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      // In a process group of its own it gets no Ctrl-C. The process that divides the requests gets it.
      detached: process.platform !== 'win32',
    });
    this.#child = child;
    const ended = once(child, 'exit').then(() => undefined);
    const said = once(child, 'message').then(([message]: readonly unknown[]) => message);
    // Keys are not on a command line.
    child.send({ kind: 'serve', options: this.#options } satisfies ToReplica, () => undefined);
    const message = parseReplicaMessage(await Promise.race([said, ended]));
    if (message?.kind !== 'listening') {
      child.kill('SIGKILL');
      throw notStarted(this.#number, message?.reason ?? 'its process ended');
    }
    this.url = message.url;
    void ended.then(() => this.#again());
    return message.summary;
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    if (child.connected) child.send({ kind: 'stop' } satisfies ToReplica, () => undefined);
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    await ended;
    clearTimeout(timer);
  }

  /** Starts again after a loss, as often as it takes. */
  async #again(): Promise<void> {
    this.url = null;
    const { signal } = this.#stopped;
    const { signalCode, exitCode } = this.#child ?? {};
    if (signal.aborted) return;
    this.#tell(
      `Replica ${this.#number} was lost (${signalCode ?? `exit code ${exitCode}`}), and starts again`,
    );
    for (let pauseMs = FIRST_PAUSE_MS; !signal.aborted; pauseMs *= 2) {
      await sleep(Math.min(pauseMs, LONGEST_PAUSE_MS), undefined, { signal }).catch(
        () => undefined,
      );
      if (signal.aborted) return;
      try {
        await this.start();
        if (signal.aborted) await this.stop();
        else this.#tell(`Replica ${this.#number} answers again`);
        return;
      } catch (error) {
        this.#tell(String(error));
      }
    }
  }
}

/** The replicas of a model, each of which is a process with one rank or with those of a group. */
export class ReplicaProcesses {
  readonly replicas: readonly Replica[];
  /** What the first of them says of itself. */
  readonly summary: string;
  readonly #processes: readonly ReplicaProcess[];

  private constructor(processes: readonly ReplicaProcess[], summary: string) {
    this.replicas = processes;
    this.summary = summary;
    this.#processes = processes;
  }

  /** Starts replicas. `tell` is given a line when one is lost. Throws ConfigError if one does not start. */
  static async start(
    count: number,
    options: ServeOptions,
    tell: (line: string) => void,
  ): Promise<ReplicaProcesses> {
    const processes = Array.from(
      { length: count },
      (_, number) => new ReplicaProcess(number, options, tell),
    );
    const started = processes.map((each) => each.start());
    try {
      const [summary = ''] = await Promise.all(started);
      return new ReplicaProcesses(processes, summary);
    } catch (error) {
      await Promise.allSettled(started);
      await Promise.all(processes.map((each) => each.stop()));
      throw error;
    }
  }

  /** Ends all of them. */
  async stop(): Promise<void> {
    await Promise.all(this.#processes.map((each) => each.stop()));
  }
}

function notStarted(number: number, reason: string): ConfigError {
  return new ConfigError(
    {
      asked: `to start replica ${number}`,
      found: reason,
      todo: 'See to the reason, which may be in the lines above, or serve with fewer ranks',
    },
    { replica: number },
  );
}

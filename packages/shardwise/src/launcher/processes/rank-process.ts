import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { readFile } from 'node:fs/promises';
import { rankProcessOptions } from '@shardwise/core/node';
import { parseRankMessage } from '../../run-state/run-message.ts';
import { parseMemberMessage } from '../ranks/member-message.ts';
import type { LauncherOrder } from '../ranks/rank-data.ts';
import type { RankHandle, RankOutcome, RankStart } from '../ranks/rank-handle.ts';
import { RankLog } from '../ranks/rank-log.ts';
import { decodeError } from './error-data.ts';
import type { ToProcess } from './process-message.ts';

/** A process that has been stopped for this long counts as lost, like a host that gives no signs of life. */
const STOPPED_MS = 1500;
/**
 * The time before a stopped process is killed. Ranks of other hosts would otherwise learn of the closed connection
 * first, and not of the reason.
 */
const ENDED_AFTER_MS = 1000;
const STOPPED = `its process was stopped for ${STOPPED_MS} ms, so it was ended`;

/** One rank as a process of its own. Whatever ends it does not end other ranks. */
export class RankProcess implements RankHandle {
  readonly outcome: Promise<RankOutcome>;
  readonly #child: ChildProcess;
  #terminated = false;
  #wasStopped = false;

  constructor(start: RankStart) {
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
    const preload = new URL(`./rank-preload.${extension}`, import.meta.url).href;
    this.#child = fork(start.script, [...start.args], {
      env: start.environment,
      // The user's options come after ours, so that they take precedence.
      execArgv: [...rankProcessOptions, ...process.execArgv, '--import', preload],
      serialization: 'advanced',
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      // In a process group of its own the rank gets no Ctrl-C. The launcher gets it, and lets ranks end their step.
      detached: process.platform !== 'win32',
    });
    this.outcome = this.#run(start);
    this.#send(start.data);
  }

  order(order: LauncherOrder): void {
    this.#send(order);
  }

  async terminate(): Promise<void> {
    this.#terminated = true;
    this.#kill();
    await this.outcome;
  }

  #send(message: ToProcess): void {
    // A rank that is gone needs no message.
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }

  #fateOf({ signal }: Exit): string | undefined {
    if (this.#wasStopped) return STOPPED;
    return signal === null ? undefined : `its process was ended by ${signal}`;
  }

  /** Kills the rank and the processes that it has started. */
  #kill(): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    try {
      process.kill(process.platform === 'win32' ? pid : -pid, 'SIGKILL');
    } catch {
      // The process has ended already.
    }
  }

  async #run({
    data: { rank },
    logPath,
    onMessage,
    onMember,
    onLine,
    onDoomed,
    onEnd,
  }: RankStart): Promise<RankOutcome> {
    const { stdout, stderr } = this.#child;
    if (stdout === null || stderr === null) throw new TypeError('a rank has no output');
    const log = new RankLog(logPath, { stdout, stderr }, onLine);
    let error: unknown;
    this.#child.on('message', (value: unknown) => {
      const message = parseRankMessage(value);
      if (message?.rank === rank) onMessage(message);
      else if (isErrorMessage(value)) error = decodeError(value.error);
      const member = onMember && parseMemberMessage(value);
      if (member !== undefined) onMember?.(member);
    });
    let startError: Error | undefined;
    this.#child.on('error', (failure) => {
      startError ??= failure;
    });
    const { pid } = this.#child;
    let ending: NodeJS.Timeout | undefined;
    const unwatch =
      pid === undefined
        ? undefined
        : watchStopped(pid, STOPPED_MS, () => {
            this.#wasStopped = true;
            onDoomed(STOPPED);
            ending ??= setTimeout(() => this.#kill(), ENDED_AFTER_MS);
          });
    const closed = once(this.#child, 'close').then(() => undefined);
    const exit = await new Promise<Exit>((resolve) => {
      this.#child.once('exit', (code, signal) => resolve({ code, signal }));
      this.#child.once('error', () => {
        if (pid === undefined) resolve({ code: 1, signal: null });
      });
    });
    unwatch?.();
    clearTimeout(ending);
    const exitCode = exitCodeOf(exit);
    // The last message of the process may arrive after its exit, but not after the end of the channel.
    if (this.#child.connected) await once(this.#child, 'disconnect');
    const end = {
      exitCode,
      error: error ?? startError,
      fate: this.#fateOf(exit),
      terminated: this.#terminated,
    };
    onEnd(end);
    // Processes that a failed rank has started would keep its output open.
    if (exitCode !== 0) this.#kill();
    if (pid !== undefined) await closed;
    return { rank, ...end, ...(await log.close()) };
  }
}

interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Returns the exit code of a process. If a signal ended it, the code is 128 + the signal's number, as in shells. */
function exitCodeOf({ code, signal }: Exit): number {
  if (code !== null) return code;
  return signal === null ? 1 : 128 + constants.signals[signal];
}

function isErrorMessage(value: unknown): value is { readonly error: unknown } {
  return (
    typeof value === 'object' &&
    value !== null &&
    'kind' in value &&
    value.kind === 'error' &&
    'error' in value
  );
}

const LOOK_MS = 250;

/**
 * Calls `onStopped` when a process has been stopped (by SIGSTOP, not by a debugger) for `limitMs`. A stopped rank holds
 * up all others, and they cannot distinguish it from a rank that computes. It works only on Linux. Elsewhere the time
 * limits of calls have to suffice. Returns a function that ends the watch.
 */
function watchStopped(pid: number, limitMs: number, onStopped: () => void): () => void {
  if (process.platform !== 'linux') return () => undefined;
  const needed = Math.ceil(limitMs / LOOK_MS);
  // Counts looks instead of time, because a launcher that was stopped itself has not seen its ranks go on.
  let seen = 0;
  const look = async (): Promise<void> => {
    seen = (await isStopped(pid)) ? seen + 1 : 0;
    if (seen === needed) onStopped();
  };
  const timer = setInterval(() => void look(), LOOK_MS);
  return () => clearInterval(timer);
}

/** Source: proc_pid_stat(5). The program's name, in parentheses, may contain any characters. */
async function isStopped(pid: number): Promise<boolean> {
  const text = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '');
  return text.slice(text.lastIndexOf(')') + 2).startsWith('T');
}

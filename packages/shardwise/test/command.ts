import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { commandVariables, commandWords } from '../../../test/support/shardwise-command.ts';

const [program = '', ...words] = commandWords;

export function fixture(name: string): string {
  return join(import.meta.dirname, 'fixtures', name);
}

/** A running `shardwise` command, in a process of its own. */
export class Command {
  readonly #child: ChildProcess;
  readonly #closed: Promise<unknown>;
  #stdout = '';
  #stderr = '';
  #onOutput: (() => void)[] = [];

  constructor(
    args: readonly string[],
    { cwd, env = {} }: { readonly cwd: string; readonly env?: NodeJS.ProcessEnv },
  ) {
    this.#child = spawn(program, [...words, ...args], {
      cwd,
      env: { ...commandVariables(), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text;
      for (const listener of this.#onOutput) listener();
    });
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
      for (const listener of this.#onOutput) listener();
    });
    this.#closed = once(this.#child, 'close');
  }

  get pid(): number {
    const { pid } = this.#child;
    if (pid === undefined) throw new Error('the command did not start');
    return pid;
  }

  get stdout(): string {
    return this.#stdout;
  }

  get stderr(): string {
    return this.#stderr;
  }

  /** The output of both streams, for the message of a failed test. */
  get output(): string {
    return `${this.#stdout}\n${this.#stderr}`;
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Resolves when one of the streams contains the pattern. Rejects if the command ends before that. */
  async says(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(this.output);
      if (found !== null) return found;
      if (this.#child.exitCode !== null)
        throw new Error(`it never said ${pattern}:\n${this.output}`);
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#onOutput.push(resolve);
      await Promise.race([promise, this.#closed]);
    }
  }

  /** Resolves to the exit code, or to null if a signal ended the command. */
  async ended(): Promise<number | null> {
    await this.#closed;
    return this.#child.exitCode;
  }
}

/** Returns a port of 127.0.0.1 that nobody uses. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (typeof address !== 'object' || address === null) throw new Error('it has no port');
  return address.port;
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** A process that answers each line of its standard input with one line of JSON. */
export interface LineProcess {
  /** Returns the next line that the process writes, as JSON. */
  next(): Promise<unknown>;
  /** Writes a request, and returns the answer. */
  ask(request: unknown): Promise<unknown>;
  /** Ends the input of the process, and waits until it has ended. */
  close(): Promise<void>;
}

/** Starts a process. What it writes to its standard error is shown. */
export function startLineProcess(
  name: string,
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): LineProcess {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'], env });
  const exited = once(child, 'exit');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<unknown> => {
    const { value, done } = await lines.next();
    if (done === true || value === undefined) throw new Error(`${name} ended before it answered`);
    return JSON.parse(value);
  };
  return {
    next,
    ask: (request) => {
      child.stdin.write(`${JSON.stringify(request)}\n`);
      return next();
    },
    close: async () => {
      child.stdin.end();
      await exited;
    },
  };
}

import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import type { TestHost } from '@shardwise/testing/hosts';
import { repository } from './documents.ts';
import type { Ended } from './run-command.ts';
import { commandVariables, commandWords } from './shardwise-command.ts';

const [program = '', ...words] = commandWords;

export const exampleScript: string = join(repository, 'examples', 'gpt', 'train.ts');

export interface RunShardwiseOptions {
  readonly cwd: string;
  /** Calls `act` once, as soon as stdout contains the text. */
  readonly when?: {
    readonly prints: string;
    readonly act: (launcher: ChildProcess) => unknown;
  };
  /** The host where the command runs. Default: this host. */
  readonly host?: TestHost;
  /** Variables in addition to those of this process. */
  readonly variables?: Readonly<Record<string, string>>;
}

/** Runs the `shardwise` command in a process of its own. */
export function runShardwise(
  args: readonly string[],
  { cwd, when, host, variables }: RunShardwiseOptions,
): Promise<Ended> {
  const options = { cwd, env: { ...commandVariables(), ...variables } };
  const child =
    host === undefined
      ? spawn(program, [...words, ...args], options)
      : host.spawn(program, [...words, ...args], options);
  let stdout = '';
  let stderr = '';
  let isDone = false;
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    if (isDone || when === undefined || !stdout.includes(when.prints)) return;
    isDone = true;
    when.act(child);
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (exitCode) =>
      resolve({ exitCode, stdout, stderr, output: `${stdout}\n${stderr}` }),
    );
  });
}

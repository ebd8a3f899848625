import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { repository } from './documents.ts';
import type { Ended } from './run-command.ts';

const launcher = join(repository, 'packages', 'shardwise', 'src', 'cli', 'main.ts');

export const exampleScript: string = join(repository, 'examples', 'gpt', 'train.ts');

export interface RunShardwiseOptions {
  readonly cwd: string;
  /** Sends SIGINT once, when stdout holds this text. */
  readonly interruptAt?: string;
}

/** The `shardwise` command, as a process of its own that runs the sources. */
export function runShardwise(
  args: readonly string[],
  { cwd, interruptAt }: RunShardwiseOptions,
): Promise<Ended> {
  const child = spawn(process.execPath, ['--conditions=@shardwise/source', launcher, ...args], {
    cwd,
  });
  let stdout = '';
  let stderr = '';
  let interrupted = false;
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    if (interrupted || interruptAt === undefined || !stdout.includes(interruptAt)) return;
    interrupted = true;
    child.kill('SIGINT');
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (exitCode) =>
      resolve({ exitCode, stdout, stderr, output: `${stdout}\n${stderr}` }),
    );
  });
}

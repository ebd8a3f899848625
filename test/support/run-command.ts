import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { repository } from './documents.ts';

export interface Ended {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** The output of both streams, for the message of a failed test. */
  readonly output: string;
}

export interface CommandOptions {
  readonly cwd: string;
  /** Whether workspace packages resolve to their sources, as in all other tests. Default: true. */
  readonly fromSource?: boolean;
}

const isWindows = process.platform === 'win32';

/** Runs a program to its end. `command` is `node` or a command that npm has installed. */
export function runCommand(
  command: string,
  args: readonly string[],
  options: CommandOptions,
): Promise<Ended> {
  const { cwd, fromSource = true } = options;
  const child = spawn(command, args, { cwd, env: environment(fromSource), shell: isWindows });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (exitCode) => {
      resolve({ exitCode, stdout, stderr, output: `${stdout}\n${stderr}` });
    });
  });
}

/**
 * Returns this process's environment with the repository's Node and commands first. It leaves out the variables that
 * `npm test` sets for its script, because an npm below it would take the repository for its own project.
 */
function environment(fromSource: boolean): NodeJS.ProcessEnv {
  const env = Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) =>
        !/^npm_(?:package|lifecycle|config_local_prefix)|^INIT_CWD$|^VITEST|^FORCE_COLOR$/.test(
          name,
        ),
    ),
  );
  const folders = [
    dirname(process.execPath),
    join(repository, 'node_modules', '.bin'),
    env['PATH'],
  ];
  env['PATH'] = folders.join(isWindows ? ';' : ':');
  env['NO_COLOR'] = '1';
  if (!fromSource) delete env['NODE_OPTIONS'];
  return env;
}

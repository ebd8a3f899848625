import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { runCommand } from './run-command.ts';

export interface Registry {
  readonly url: string;
  /** An npm settings file that makes npm publish to this registry and install from it. */
  readonly userConfig: string;
  close(): Promise<void>;
}

/**
 * The package that installs Verdaccio. One of its dependencies asks for a tag that not every mirror has, so the version
 * is overridden.
 */
const manifest = {
  private: true,
  dependencies: { verdaccio: '6.10.4' },
  overrides: { 'node-fetch': '2.7.0' },
};

/**
 * Starts a package registry on loopback that holds our packages. It gets all other packages from the registry that npm
 * uses. Its files are in `folder`.
 */
export async function startRegistry(folder: string): Promise<Registry> {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
  const install = ['install', '--prefer-offline', '--no-audit', '--no-fund'];
  await succeed('npm', install, folder);
  const upstream = (await succeed('npm', ['config', 'get', 'registry'], folder)).trim();
  const ours = '{ access: $all, publish: $authenticated }';
  writeFileSync(
    join(folder, 'config.yaml'),
    [
      'storage: ./storage',
      'auth: { htpasswd: { file: ./htpasswd, max_users: 1 } }',
      `uplinks: { upstream: { url: '${upstream}' } }`,
      `packages: { 'shardwise': ${ours}, 'create-shardwise': ${ours}, '@shardwise/*': ${ours}, '**': { access: $all, proxy: upstream } }`,
      'max_body_size: 200mb',
      'log: { type: stdout, level: warn }',
    ].join('\n'),
  );
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/`;
  const program = join(folder, 'node_modules', 'verdaccio', 'bin', 'verdaccio');
  const options = ['--config', 'config.yaml', '--listen', `127.0.0.1:${port}`];
  const server = spawn(process.execPath, [program, ...options], { cwd: folder, stdio: 'ignore' });
  const ended = once(server, 'exit');
  await answers(url);
  const userConfig = join(folder, 'npmrc');
  const token = await newUser(url);
  writeFileSync(userConfig, `registry=${url}\n//127.0.0.1:${port}/:_authToken=${token}\n`);
  return {
    url,
    userConfig,
    close: async () => {
      server.kill();
      await ended;
    },
  };
}

async function succeed(command: string, args: readonly string[], cwd: string): Promise<string> {
  const { exitCode, stdout, output } = await runCommand(command, args, { cwd, fromSource: false });
  if (exitCode !== 0) throw new Error(`${command} ${args.join(' ')}: ${output}`);
  return stdout;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

async function answers(url: string): Promise<void> {
  for (let attempt = 0; attempt < 300; attempt++) {
    const isThere = await fetch(`${url}-/ping`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isThere) return;
    await delay(200);
  }
  throw new Error(`nothing answers at ${url}`);
}

async function newUser(url: string): Promise<string> {
  const user = { name: 'release', password: 'a rehearsal on loopback' };
  const response = await fetch(`${url}-/user/org.couchdb.user:${user.name}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(user),
  });
  const answer: unknown = await response.json();
  if (typeof answer !== 'object' || answer === null || !('token' in answer)) {
    throw new Error(`no user: ${JSON.stringify(answer)}`);
  }
  return String(answer.token);
}

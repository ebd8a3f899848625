import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { Command, fixture, freePort } from './command.ts';

const sockets = join(
  import.meta.dirname,
  '../../../apps/docs/examples/terminal/socket-transport.ts',
);
const script = fixture('elastic.ts');

let cwd = '';
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-transport-module-'));
});

/** Writes a module into the working directory, and runs two ranks that are to connect by it. */
async function runWith(source: string, options: readonly string[] = []): Promise<Command> {
  await writeFile(join(cwd, 'own.ts'), source);
  const args = ['run', '--nproc', '2', '--transport', './own.ts', ...options, script, '3'];
  const run = new Command(args, { cwd });
  await run.ended();
  return run;
}

describe('shardwise run --transport', () => {
  it('connects the processes of one host by the module, and says so', async () => {
    const options = ['--nproc', '3', '--transport', sockets, '--run-dir', 'out'];
    const run = new Command(['run', ...options, script, '3'], { cwd });
    expect(await run.ended(), run.output).toBe(0);
    expect(run.stdout).toContain(`transport: module (${sockets}, 3 processes of one host)`);
    expect(run.stdout).toMatch(/^step 3\//m);
    const values = [...run.stdout.matchAll(/ends with (.*)$/gm)].map(([, value]) => value);
    expect(values).toHaveLength(3);
    expect(new Set(values).size).toBe(1);
  });

  it('starts the ranks again, connected anew, when one is killed', async () => {
    const options = ['--nproc', '2', '--transport', sockets, '--max-restarts', '1'];
    const run = new Command(['run', ...options, script, '4', '1', '1:2:kill'], { cwd });
    expect(await run.ended(), run.output).toBe(0);
    expect(run.stderr).toContain('Rank 1 failed: its process was ended by SIGKILL');
    expect(run.stdout).toMatch(/^step 4\//m);
  });

  it('imports a package that is installed in the working directory by its name', async () => {
    const folder = join(cwd, 'node_modules', 'own-transport');
    await mkdir(folder, { recursive: true });
    const manifest = { name: 'own-transport', type: 'module', exports: { import: './main.js' } };
    await writeFile(join(folder, 'package.json'), JSON.stringify(manifest));
    const source = `export { default } from ${JSON.stringify(sockets)};`;
    await writeFile(join(folder, 'main.js'), source);
    const args = ['run', '--nproc', '2', '--transport', 'own-transport', script, '2'];
    const run = new Command(args, { cwd });
    expect(await run.ended(), run.output).toBe(0);
    expect(run.stdout).toContain('transport: module (own-transport, 2 processes of one host)');
  });
});

describe('on several hosts, shardwise run --transport', () => {
  const env = { SHARDWISE_SECRET: 'a secret of this test alone' };
  const host = async (
    place: number,
    rendezvous: string,
    ...options: string[]
  ): Promise<Command> => {
    const shared = ['--nnodes', '2', '--nproc', '1', '--node-rank', String(place)];
    const args = ['run', ...shared, '--rdzv', rendezvous, ...options, script, '3'];
    return new Command(args, { cwd, env });
  };

  it('is the one of host 0, which the others find by its name', async () => {
    const rendezvous = `127.0.0.1:${await freePort()}`;
    const first = await host(0, rendezvous, '--transport', sockets);
    const second = await host(1, rendezvous);
    expect(await first.ended(), first.output).toBe(0);
    expect(await second.ended(), second.output).toBe(0);
    expect(first.stdout).toContain(`transport: module (${sockets}, 2 processes of 2 hosts)`);
    expect(second.stdout).toContain('rank 1 of 2, node 1, local 0, module');
  });

  it('is refused on a host where it is another one', async () => {
    const rendezvous = `127.0.0.1:${await freePort()}`;
    const first = await host(0, rendezvous);
    const second = await host(1, rendezvous, '--transport', sockets);
    expect(await second.ended()).toBe(2);
    expect(second.stderr).toBe(
      `--transport ${sockets}: node 0 was started without it. Give every host the same --transport, or only node 0\n`,
    );
    first.kill('SIGINT');
    await first.ended();
  });
});

describe('a transport that cannot be', () => {
  it('is refused before the run where its module does not exist', async () => {
    const run = new Command(['run', '--transport', './none.ts', script], { cwd });
    expect(await run.ended()).toBe(2);
    expect(run.stderr).toBe(
      `--transport ./none.ts: no such file in ${cwd}. Give the path of a module\n`,
    );
    const other = new Command(['run', '--transport', 'no-such-package', script], { cwd });
    expect(await other.ended()).toBe(2);
    expect(other.stderr).toMatch(
      /^--transport no-such-package: neither a file nor a package .* install the package there$/m,
    );
  });

  it('is refused before the run where ranks are threads, or are not connected', async () => {
    const threads = await runWith('', ['--ranks', 'threads']);
    expect(threads.stderr).toMatch(
      /^--transport .\/own.ts with --ranks threads: threads talk by the memory .*\. Leave out --ranks/,
    );
    const workers = await runWith('', ['--servers', '1', '--worker-restarts', '1']);
    expect(workers.stderr).toMatch(/with --worker-restarts 1: workers .* are not connected/);
  });

  // What else a module can do wrong is tested in join-by-module.test.ts.
  it('fails the ranks where the module throws while it connects', async () => {
    const run = await runWith('export default () => { throw new Error("refused"); };');
    expect(await run.ended()).toBe(1);
    expect(run.stderr).toMatch(
      /CollectiveError: Connecting rank \d of 2 by --transport .\/own.ts: the module threw Error: refused/,
    );
  });

  it('fails the ranks where they are not connected within the time limit', async () => {
    const run = await runWith('export default () => new Promise(() => undefined);', [
      '--transport-timeout',
      '0.5',
    ]);
    expect(await run.ended()).toBe(1);
    expect(run.stderr).toMatch(
      /CollectiveTimeoutError: Connecting rank \d of 2 .*: the transport was not there after 500 ms\. Look/,
    );
  });
});

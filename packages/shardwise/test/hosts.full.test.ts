import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { Command, fixture, freePort } from './command.ts';

// Each host is a separate launcher on this machine.

const elastic = fixture('elastic.ts');
const env = { SHARDWISE_SECRET: 'a secret of this test alone' };

let cwd = '';
let rendezvous = '';
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-hosts-'));
  rendezvous = `127.0.0.1:${await freePort()}`;
});

/** Starts a host of a run whose script is elastic.ts. */
function host(options: readonly string[], script: readonly string[], variables = env): Command {
  const args = ['run', '--rdzv', rendezvous, ...options, elastic, ...script];
  return new Command(args, { cwd, env: variables });
}

const valueOf = (run: Command, rank: number): string | undefined =>
  new RegExp(`rank ${rank} ends with (.*)$`, 'm').exec(run.stdout)?.[1];

async function lossesOf(directory: string): Promise<readonly unknown[]> {
  const text = await readFile(join(cwd, directory, 'metrics.jsonl'), 'utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).loss);
}

describe('two hosts with two ranks each', () => {
  it('train as one host with four, bit for bit, and the first one shows it all', async () => {
    const options = ['--nnodes', '2', '--nproc', '2'];
    const first = host([...options, '--node-rank', '0', '--run-dir', 'two'], ['6']);
    const second = host([...options, '--node-rank', '1'], ['6']);
    expect(await first.ended(), first.output).toBe(0);
    expect(await second.ended(), second.output).toBe(0);
    expect(first.stdout).toMatch(/^transport: hosted \(4 processes of 2 hosts\)$/m);
    expect(first.stdout).toContain('rank 1 of 4, node 0, local 1, hosted');
    expect(second.stdout).toContain('rank 3 of 4, node 1, local 1, hosted');
    expect(second.stderr).toMatch(
      /^Node 1 of 2: ranks 2 to 3\. Steps are shown on .* \(node 0\)\.$/m,
    );

    const alone = new Command(['run', '--nproc', '4', '--run-dir', 'one', elastic, '6'], { cwd });
    expect(await alone.ended(), alone.output).toBe(0);
    const values = [valueOf(first, 0), valueOf(first, 1), valueOf(second, 2), valueOf(second, 3)];
    expect(new Set([...values, valueOf(alone, 0)]).size).toBe(1);
    expect(await lossesOf('two')).toEqual(await lossesOf('one'));
  });

  it('stop after the same step at Ctrl-C on either', async () => {
    const options = ['--nnodes', '2', '--nproc', '2'];
    const first = host([...options, '--node-rank', '0'], ['100000', '5']);
    const second = host([...options, '--node-rank', '1'], ['100000', '5']);
    await first.says(/^step 1\//m);
    second.kill('SIGINT');
    expect(await second.ended(), second.output).toBe(130);
    expect(second.stderr).toContain('Stopping at the next shouldStop(); press Ctrl-C again');
    expect(await first.ended(), first.output).toBe(0);
    const values = [valueOf(first, 0), valueOf(first, 1), valueOf(second, 2), valueOf(second, 3)];
    expect(values[0]).toBeDefined();
    expect(new Set(values).size).toBe(1);
  });

  it('start again together when a rank of one is killed, and fail together when the budget is used up', async () => {
    const options = ['--nnodes', '2', '--nproc', '2', '--max-restarts', '1'];
    const script = ['8', '1', '3:5:kill', '2'];
    const first = host([...options, '--node-rank', '0', '--run-dir', 'out'], script);
    const second = host([...options, '--node-rank', '1'], script);
    expect(await first.ended(), first.output).toBe(1);
    expect(await second.ended(), second.output).toBe(137);
    const culprit = /Rank 3 on node 1 \(.*\) failed: its process was ended by SIGKILL/;
    for (const { stderr } of [first, second]) {
      expect(stderr).toMatch(
        new RegExp(`^${culprit.source}\\. Starting again \\(restart 1 of 1\\)`, 'm'),
      );
      expect(stderr).toContain(`with 4 ranks from ${join('out', 'checkpoints', 'step-000004')}`);
      expect(stderr).toContain('The restart budget is used up: 1 of 1');
    }
    expect(first.stderr).toMatch(new RegExp(`^${culprit.source}$`, 'm'));
    expect(second.stderr).toMatch(/^Rank 3 failed first: its process was ended by SIGKILL$/m);
  });
});

describe('MIN:MAX hosts', () => {
  it('take in a host that comes later, and go on without it when it has gone', async () => {
    const options = ['--nnodes', '1:2', '--last-call', '0.3', '--max-restarts', '1'];
    const script = ['100000', '5'];
    const first = host([...options, '--node-rank', '0', '--run-dir', 'out'], script);
    await first.says(/rank 0 of 1, .* after step 0/);
    await first.says(/^step [2-9]/m);
    const second = host(options, script);
    await first.says(/joined\. Starting again with 2 ranks/);
    const [, resumed] = await first.says(/rank 0 of 2, .* restart 0, after step (\d+)/);
    expect(Number(resumed)).toBeGreaterThan(0);
    await second.says(/rank 1 of 2, node 1/);
    second.kill('SIGKILL');
    await first.says(/failed: .*\. Starting again \(restart 1 of 1\) with 1 rank from/);
    await first.says(/rank 0 of 1, .* restart 1, after step [1-9]/);
    first.kill('SIGINT');
    expect(await first.ended(), first.output).toBe(130);
  });
});

describe('a host that may not join', () => {
  it('is told so where its secret is another one, and the run goes on without it', async () => {
    const first = host(['--nnodes', '1:2', '--last-call', '0.1', '--node-rank', '0'], ['100000']);
    await first.says(/^step 1/m);
    const stranger = host(['--nnodes', '1:2'], ['1'], { SHARDWISE_SECRET: 'another secret of 16' });
    expect(await stranger.ended()).toBe(2);
    expect(stranger.stderr).toMatch(/secrets differ/);
    first.kill('SIGINT');
    expect(await first.ended(), first.output).toBe(130);
    expect(first.stderr).not.toContain('joined');
  });

  it('is told so where another job has the port', async () => {
    const options = ['--nnodes', '1:2', '--last-call', '0.1'];
    const first = host([...options, '--rdzv-id', 'one'], ['100000']);
    await first.says(/^step 1/m);
    const other = host([...options, '--rdzv-id', 'two'], ['1']);
    expect(await other.ended()).toBe(2);
    expect(other.stderr).toMatch(
      /Joining job "two" at 127.*: job "one" runs there\. Give each job/,
    );
    first.kill('SIGINT');
    expect(await first.ended(), first.output).toBe(130);
  });

  it('is told so where something else has the port', async () => {
    const server = createServer().listen(Number(rendezvous.split(':')[1]), '127.0.0.1');
    await once(server, 'listening');
    const run = host(['--nnodes', '2', '--node-rank', '0'], ['1']);
    expect(await run.ended()).toBe(2);
    expect(run.stderr).toMatch(/^Listening on 127.*: another process has that port/m);
    server.close();
  });
});

describe('a run of several hosts', () => {
  it('needs a secret, and says how to make one', async () => {
    const run = host(['--nnodes', '2'], ['1'], { SHARDWISE_SECRET: '' });
    expect(await run.ended()).toBe(2);
    expect(run.stderr).toMatch(/secret.*holds none\. Make one with `openssl rand -hex 32/);
  });

  it('takes the secret from a file too', async () => {
    await writeFile(join(cwd, 'job.secret'), 'short\n');
    const run = host(['--nnodes', '2', '--secret-file', 'job.secret'], ['1']);
    expect(await run.ended()).toBe(2);
    expect(run.stderr).toContain('job.secret holds 5 characters, not 16 to 4096');
  });

  it('needs a place to meet', async () => {
    const run = new Command(['run', '--nnodes', '2', elastic], { cwd, env });
    expect(await run.ended()).toBe(2);
    expect(run.stderr).toMatch(/nothing says where they meet\. Give every host the same --rdzv/);
  });

  it('takes what it is not told from the environment of an operator', async () => {
    const [, port = ''] = rendezvous.split(':');
    const operator = (place: string): NodeJS.ProcessEnv => ({
      ...env,
      PET_NNODES: '2',
      PET_NPROC_PER_NODE: '1',
      PET_NODE_RANK: place,
      PET_MASTER_ADDR: '127.0.0.1',
      PET_MASTER_PORT: port,
    });
    const hosts = ['0', '1'].map(
      (place) => new Command(['run', elastic, '3'], { cwd, env: operator(place) }),
    );
    for (const run of hosts) expect(await run.ended(), run.output).toBe(0);
    expect(hosts[1]?.stdout).toContain('rank 1 of 2, node 1, local 0, tcp');
  });

  it('ends where too few hosts come, with their number', async () => {
    const run = host(['--nnodes', '2', '--node-rank', '0', '--join-timeout', '0.3'], ['1']);
    expect(await run.ended()).toBe(1);
    expect(run.stderr).toContain('only 1 of 2 hosts came within 300 ms');
  });

  it('ends on the other hosts when the first one is killed, whatever the restart budget', async () => {
    const options = ['--nnodes', '2', '--max-restarts', '2'];
    const first = host([...options, '--node-rank', '0'], ['100000', '5']);
    const second = host([...options, '--node-rank', '1'], ['100000', '5']);
    await second.says(/rank 1 of 2/);
    await first.says(/^step 1/m);
    first.kill('SIGKILL');
    expect(await second.ended()).toBeGreaterThan(0);
    expect(second.stderr).toMatch(/^(The host of the store 127\S+ failed: |Rank 0 on node 0)/m);
    expect(second.stderr).not.toContain('restart budget');
  });
});

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { commandVariables } from '../../../test/support/shardwise-command.ts';
import { environmentTransport } from '../src/rank/environment-host.ts';
import { fixture, freePort } from './command.ts';

// Another launcher has started these ranks: without `shardwise run`, but with the variables of that launcher.

let cwd = '';
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-environment-'));
});

interface Ended {
  readonly exitCode: number | null;
  readonly output: string;
}

function rank(variables: NodeJS.ProcessEnv, script: readonly string[]): Promise<Ended> {
  const child = spawn(process.execPath, [fixture('elastic.ts'), ...script], {
    cwd,
    env: { ...commandVariables(), ...variables },
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (exitCode) => resolve({ exitCode, output }));
  });
}

describe('ranks with the variables of torchrun', () => {
  const variables = (place: number, port: number): NodeJS.ProcessEnv => ({
    RANK: String(place),
    WORLD_SIZE: '2',
    LOCAL_RANK: String(place),
    LOCAL_WORLD_SIZE: '2',
    MASTER_ADDR: '127.0.0.1',
    MASTER_PORT: String(port),
    SHARDWISE_SECRET: 'a secret of this test alone',
  });

  it('join by tcp, and rank 0 prints the steps and names the run', async () => {
    const port = await freePort();
    const ranks = [0, 1].map((place) => rank(variables(place, port), ['4']));
    const [first, second] = await Promise.all(ranks);
    expect(first?.exitCode, first?.output).toBe(0);
    expect(second?.exitCode, second?.output).toBe(0);
    expect(first?.output).toMatch(/^transport: tcp \(2 ranks that torchrun started\)$/m);
    expect(first?.output).toMatch(/^step 4\/4 {2}loss /m);
    expect(second?.output).toMatch(/^rank 1 of 2, .*, tcp, /m);
    expect(second?.output).not.toMatch(/^step/m);
    const value = /ends with (.*)/.exec(first?.output ?? '')?.[1];
    expect(second?.output).toContain(`rank 1 ends with ${value}`);
    expect(await readdir(join(cwd, 'runs'))).toHaveLength(1);
  });

  it('need a secret', async () => {
    const port = await freePort();
    const { exitCode, output } = await rank({ ...variables(1, port), SHARDWISE_SECRET: '' }, ['1']);
    expect(exitCode).toBe(1);
    expect(output).toMatch(/SHARDWISE_SECRET holds none\. Make one with/);
  });

  it('with different secrets are told so, both of them', async () => {
    const port = await freePort();
    const stranger = { ...variables(1, port), SHARDWISE_SECRET: 'another secret of 16' };
    const ranks = [rank(variables(0, port), ['1']), rank(stranger, ['1'])];
    const ended = await Promise.race(ranks);
    expect(ended.exitCode).toBe(1);
    expect(ended.output).toMatch(/the secrets differ/);
  });

  it('are told that something else has the port of rank 0', async () => {
    const port = await freePort();
    const server = createServer().listen(port, '127.0.0.1');
    await once(server, 'listening');
    const { exitCode, output } = await rank(variables(0, port), ['1']);
    expect(exitCode).toBe(1);
    expect(output).toContain(`127.0.0.1:${port}: another process has that port`);
    server.close();
  });

  it('are told which variables are missing', async () => {
    const { exitCode, output } = await rank({ RANK: '0', WORLD_SIZE: '2' }, ['1']);
    expect(exitCode).toBe(1);
    expect(output).toMatch(/ConfigError: .*MASTER_ADDR/);
  });
});

describe('the transport of ranks that another launcher has started', () => {
  const launch = {
    kind: 'rank',
    rank: 0,
    worldSize: 4,
    localRank: 0,
    localWorldSize: 4,
    nodeRank: 0,
    address: undefined,
    port: undefined,
    jobId: undefined,
    restartCount: undefined,
    maxRestarts: undefined,
  } as const;

  it.each(['torchrun', 'kubernetes', 'kubeflow', 'slurm'] as const)('is tcp for %s', (launcher) => {
    expect(environmentTransport({ ...launch, launcher }, {})).toEqual({
      kind: 'tcp',
      reason: `4 ranks that ${launcher} started`,
    });
  });
});

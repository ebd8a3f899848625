import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { runShardwise } from '../../../test/support/run-shardwise.ts';
import { fixture } from './command.ts';

describe('shardwise verify', () => {
  let cwd = '';
  beforeAll(async () => {
    cwd = await mkdtemp(join(tmpdir(), 'shardwise-verify-'));
  });
  const verify = (...args: readonly string[]) =>
    runShardwise(['verify', fixture('verified.ts'), ...args], { cwd });

  it('says that a right script trains as one rank does', async () => {
    const { exitCode, stdout, stderr } = await verify('--nproc', '2', '--steps', '2');
    expect(stderr).toBe('');
    expect(stdout).toBe(
      'ddp on 2 ranks trains as one rank does: 30 tensors of 2 steps differ by no more than rounding\n',
    );
    expect(exitCode).toBe(0);
  });

  it('names a loss that is divided twice, and passes arguments to the script', async () => {
    const { exitCode, stdout } = await verify('scaled', '--steps', '1');
    expect(stdout).toMatch(/^ddp on 2 ranks differs from one rank in step 1$/m);
    expect(stdout).toMatch(/^ {2}the model \(Sequential\): the loss differs$/m);
    expect(stdout).toMatch(/^ {4}what it looks like +it is 1\/2 of the right value/m);
    expect(exitCode).toBe(1);
  });

  it('names ranks that read the same data, also as JSON', async () => {
    const { exitCode, stdout } = await verify('--json', '--steps', '1', '--', 'same');
    expect(JSON.parse(stdout)).toMatchObject({
      finding: { kind: 'batch', step: 1, ranks: [0, 1] },
      ranks: 2,
      steps: 1,
    });
    expect(exitCode).toBe(1);
  });

  it('says why a script cannot be verified', async () => {
    const { exitCode, stderr } = await runShardwise(['verify', fixture('train.ts'), '2'], { cwd });
    expect(stderr).toContain('it ended without a model for parallelize()');
    expect(exitCode).toBe(2);
  });
});

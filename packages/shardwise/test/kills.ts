import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { shmAvailability } from '@shardwise/collectives/node';
import { beforeEach, describe, expect, it } from 'vitest';
import { Command, freePort } from './command.ts';
import { disturb, lossesOf, restartOptions, scriptFor } from './disturbed-run.ts';

const shm = shmAvailability();
const title = shm.available ? 'ranks that are killed' : `not here: ${shm.reason}`;
const ends = (run: Command): readonly string[] =>
  [...run.stdout.matchAll(/^(?:\[rank \d+\] )?rank \d+ ends with (.*)$/gm)].map(
    ([, value = '']) => value,
  );

export interface Kills {
  /** The number of kills of two processes on one host. */
  readonly onOneHost: number;
  /** The number of kills with two processes on each of two hosts. */
  readonly onTwoHosts: number;
  readonly timeoutMs: number;
}

/** Tests that runs whose ranks are killed at random moments end like an undisturbed run. */
export function runsThatAreDisturbed({ onOneHost, onTwoHosts, timeoutMs }: Kills): void {
  describe.skipIf(!shm.available)(title, { timeout: timeoutMs }, () => {
    let cwd = '';
    beforeEach(async () => {
      cwd = await mkdtemp(join(tmpdir(), 'shardwise-kills-'));
    });

    const undisturbed = async (ranks: number, kills: number): Promise<Command> => {
      const options = ['--nproc', String(ranks), '--run-dir', 'calm'];
      const args = ['run', ...options, ...scriptFor(kills, 0)];
      const run = new Command(args, { cwd });
      expect(await run.ended(), run.output).toBe(0);
      return run;
    };

    const expectSame = async (disturbed: readonly Command[], calm: Command): Promise<void> => {
      for (const run of disturbed) expect(await run.ended(), run.output).toBe(0);
      const values = disturbed.flatMap(ends);
      expect(values).toEqual(ends(calm));
      expect(new Set(values).size).toBe(1);
      expect(await lossesOf(join(cwd, 'out', 'metrics.jsonl'))).toEqual(
        await lossesOf(join(cwd, 'calm', 'metrics.jsonl')),
      );
    };

    it(`at ${onOneHost} random moments end with the losses of a run without`, async () => {
      const calm = await undisturbed(2, onOneHost);
      const options = [...restartOptions(onOneHost), '--nproc', '2', '--run-dir', 'out'];
      const run = new Command(['run', ...options, ...scriptFor(onOneHost)], { cwd });
      await disturb([run], onOneHost);
      await expectSame([run], calm);
      expect(run.stderr).not.toContain(`restart ${onOneHost + 1} of`);
    });

    it(`on 2 hosts x 2 at ${onTwoHosts} random moments, too`, async () => {
      const calm = await undisturbed(4, onTwoHosts);
      const meeting = ['--nnodes', '2', '--nproc', '2', '--rdzv', `127.0.0.1:${await freePort()}`];
      const env = { SHARDWISE_SECRET: 'a secret of this test alone' };
      const hosts = ['0', '1'].map((place) => {
        const own = ['--node-rank', place, ...(place === '0' ? ['--run-dir', 'out'] : [])];
        const options = [...meeting, ...own, ...restartOptions(onTwoHosts)];
        return new Command(['run', ...options, ...scriptFor(onTwoHosts)], { cwd, env });
      });
      await disturb(hosts, onTwoHosts);
      await expectSame(hosts, calm);
    });
  });
}

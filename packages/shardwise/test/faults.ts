import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { shmAvailability } from '@shardwise/collectives/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { Command, fixture, freePort } from './command.ts';

/** What the other ranks must be told after each fault, in addition to rank 1. */
const heardInCalls = {
  'killed-early': /SIGKILL|exit code 9/,
  'killed-before': /ended the group \(/,
  'killed-inside': /ended the group \(/,
  'killed-after': /ended the group \(/,
  stopped: /its process (was|is) stopped/,
  throws: /ended the group \(/,
  operation: /allReduce\(sum, .*broadcast\(root 0, /,
  size: /f32 \[1048576\].*f32 \[524288\]/,
  dtype: /f32 \[1048576\].*i32 \[1048576\]/,
  'one-call-fewer': /allReduce\(sum, .*barrier\(\)/,
  leaves: /closed the (group|transport)/,
} as const;
export type Fault = keyof typeof heardInCalls;
const isFault = (name: string): name is Fault => name in heardInCalls;
export const allFaults: readonly Fault[] = Object.keys(heardInCalls).filter(isFault);

/**
 * What the other ranks of a pipeline must be told. Rank 1 is killed after it has computed something, between a receive
 * and a send.
 */
const heardInStages = {
  'killed in warm-up': /ended the group \(/,
  'killed in steady state': /ended the group \(/,
  'killed in cool-down': /ended the group \(/,
} as const;

/** Each world has `hosts` times `nproc` ranks. */
const worlds = {
  threads: { hosts: 1, nproc: 3, more: ['--ranks', 'threads'] },
  shm: { hosts: 1, nproc: 3, more: ['--ranks', 'processes'] },
  tcp: { hosts: 3, nproc: 1, more: [] },
  hosted: { hosts: 2, nproc: 2, more: [] },
} as const;

const shm = shmAvailability();

/** Tests one run in which each restart ends with the next fault. The last restart succeeds. */
export function ranksThatFail(transport: keyof typeof worlds, committed: readonly Fault[]): void {
  const heard = Object.fromEntries(committed.map((fault) => [fault, heardInCalls[fault]]));
  whereItCanBe(transport, 'ranks', () => hearOfFaults(transport, 'faults.ts', heard));
}

/** Does what ranksThatFail does, for ranks that train in stages. */
export function stagesThatFail(transport: keyof typeof worlds): void {
  whereItCanBe(transport, 'stages', () =>
    hearOfFaults(transport, 'pipeline-faults.ts', heardInStages),
  );
}

function whereItCanBe(transport: keyof typeof worlds, who: string, body: () => void): void {
  const isHere = shm.available || transport === 'threads' || transport === 'tcp';
  const title = `${who} on ${transport}${isHere ? '' : ' (not here: no shared memory)'}`;
  describe.skipIf(!isHere)(title, body);
}

function hearOfFaults(
  transport: keyof typeof worlds,
  script: string,
  heard: Readonly<Record<string, RegExp>>,
): void {
  const committed = Object.entries(heard);
  const { hosts, nproc, more } = worlds[transport];
  let output = '';

  beforeAll(async () => {
    const cwd = await mkdtemp(join(tmpdir(), 'shardwise-faults-'));
    const env = { SHARDWISE_SECRET: 'a secret of this test alone' };
    const meeting = ['--nnodes', String(hosts), '--rdzv', `127.0.0.1:${await freePort()}`];
    const runs = Array.from({ length: hosts }, (_, place) => {
      const own = hosts === 1 ? [] : [...meeting, '--node-rank', String(place)];
      const restarts = ['--max-restarts', String(committed.length), '--run-dir', `run-${place}`];
      const options = ['--nproc', String(nproc), ...own, ...more, ...restarts];
      const args = ['run', ...options, fixture(script), ...Object.keys(heard)];
      return new Command(args, { cwd, env });
    });
    const codes = await Promise.all(runs.map((run) => run.ended()));
    output = runs.map((run) => run.output).join('\n');
    expect(codes, output).toEqual(codes.map(() => 0));
    // The log of the tests shows how long each rank took to hear of the fault.
    for (const [line] of output.matchAll(/rank \d+ hears of [^:]* after \d+ ms/g)) {
      console.log(`${transport}: ${line}`);
    }
  }, 300_000);

  it(`are joined by ${transport}`, () => {
    expect(output).toMatch(new RegExp(`^transport: ${transport} `, 'm'));
  });

  it.each(committed)('all name rank 1 where it is one of "%s"', (fault, reason) => {
    for (let rank = 0; rank < hosts * nproc; rank += 1) {
      if (rank === 1) continue;
      const [, message = ''] =
        new RegExp(`rank ${rank} hears of ${fault} after \\d+ ms: (.*)$`, 'm').exec(output) ?? [];
      expect(message, output).toMatch(/rank 1\b/);
      expect(message).toMatch(reason);
      expect(message).not.toContain('has not arrived');
    }
  });
}

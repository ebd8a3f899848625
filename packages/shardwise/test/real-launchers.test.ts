import { execFile, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { withoutRankVariables } from '../src/environment/without-rank-variables.ts';

const execute = promisify(execFile);
const program = [
  process.execPath,
  '--conditions=@shardwise/source',
  join(import.meta.dirname, 'print-launch.ts'),
];

const launchers = [
  ['mpirun.openmpi', ['--allow-run-as-root', '--oversubscribe', '-n', '2'], 'open-mpi'],
  ['mpiexec.hydra', ['-n', '2'], 'hydra'],
] as const;

describe.each(launchers)('%s', (command, options, launcher) => {
  const found = spawnSync(command, ['--version']).status === 0;

  it.skipIf(!found)(found ? 'says which ranks it starts' : 'is not installed here', async () => {
    const { stdout } = await execute(command, [...options, ...program], {
      env: withoutRankVariables(process.env),
    });
    const launches: { readonly rank: number }[] = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const expected = [0, 1].map((rank) => ({
      kind: 'rank',
      launcher,
      rank,
      worldSize: 2,
      localRank: rank,
      localWorldSize: 2,
      address: '127.0.0.1',
    }));
    expect(launches.toSorted((a, b) => a.rank - b.rank)).toMatchObject(expected);
  });
});

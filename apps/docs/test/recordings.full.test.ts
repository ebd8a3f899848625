import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdtemp, open, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { hostname, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { findMpis } from '@shardwise/testing/node';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { commandVariables, commandWords } from '../../../test/support/shardwise-command.ts';

const repository = join(import.meta.dirname, '../../..');
const examples = join(import.meta.dirname, '../examples');

/** With this variable the test writes the files instead of comparing them. */
const isUpdate = process.env['SHARDWISE_UPDATE_RECORDINGS'] === '1';

/**
 * The commands of each recording, as a reader types them. The commands of one recording run at the same time. The
 * programs are in `examples`.
 */
const recordings = {
  'one-rank': ['node sine-on-ranks.ts'],
  'two-threads': ['npx shardwise run --nproc 2 sine-on-ranks.ts'],
  'two-processes': ['npx shardwise run --nproc 2 --ranks processes sine-on-ranks.ts'],
  'two-hosts': [
    'npx shardwise run --nnodes 2 --nproc 1 --node-rank 0 --rdzv 10.0.0.1:29400 --secret-file job.secret sine-on-ranks.ts',
    'npx shardwise run --nnodes 2 --nproc 1 --node-rank 1 --rdzv 10.0.0.1:29400 --secret-file job.secret sine-on-ranks.ts',
  ],
  'own-transport': [
    'npx shardwise run --nproc 2 --transport ./socket-transport.ts sine-on-ranks.ts',
  ],
  'left-out-call': ['npx shardwise run --nproc 3 left-out-call.ts'],
  'verify-scaled-loss': ['npx shardwise verify --nproc 2 scaled-loss.ts'],
  'goes-on': ['npx shardwise run --nproc 2 --max-restarts 3 goes-on.ts'],
  'open-mpi': ['mpirun -n 2 node sine-on-ranks.ts'],
} as const satisfies Readonly<Record<string, readonly string[]>>;

let folder = '';
/** The address where the hosts of a recording meet. Both are this host. */
let meetingPoint = '';
beforeAll(async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new TypeError('no port');
  meetingPoint = `127.0.0.1:${address.port}`;
  server.close();
  folder = await mkdtemp(join(tmpdir(), 'recordings-'));
  await symlink(join(repository, 'node_modules'), join(folder, 'node_modules'), 'junction');
  const copied = ['left-out-call', 'goes-on', 'scaled-loss', 'socket-transport'];
  for (const name of ['sine-on-ranks', ...copied.map((each) => `terminal/${each}`)]) {
    await copyFile(join(examples, `${name}.ts`), join(folder, `${basename(name)}.ts`));
  }
  await writeFile(join(folder, 'job.secret'), '5f'.repeat(32), { mode: 0o600 });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const mpi = findMpis().find(({ name }) => name === 'Open MPI');

test.for(Object.entries(recordings))(
  '%s prints what its page shows',
  { timeout: 120_000 },
  async ([name, commands], { skip }) => {
    if (name === 'open-mpi' && mpi !== undefined && 'missing' in mpi) skip(mpi.missing);
    const outputs = await Promise.all(commands.map((command, index) => run(command, index)));
    const found = commands
      .map((command, index) => `$ ${command}\n${outputs[index]}`.trimEnd())
      .join('\n\n');
    const file = join(examples, 'recordings', `${name}.txt`);
    if (isUpdate) await writeFile(file, `${found}\n`);
    const shown = await readFile(file, 'utf8');
    expect(comparable(found)).toEqual(comparable(shown));
  },
);

/** Returns what a command writes to both streams, in order, without stacks and this machine's name. */
async function run(command: string, index: number): Promise<string> {
  const words = command.replace('10.0.0.1:29400', meetingPoint).split(' ');
  const [program = '', ...args] =
    words[0] === 'npx'
      ? [...commandWords, ...words.slice(2)]
      : words.map((word) => (word === 'node' ? process.execPath : word));
  const launcher =
    words[0] === 'mpirun' && mpi !== undefined && 'launcher' in mpi ? mpi.launcher : undefined;
  const path = join(folder, `output-${index}.txt`);
  await using file = await open(path, 'w');
  // These are options that a test machine needs in addition to the command that a reader types.
  const options = launcher?.argumentsFor(2).slice(0, -2) ?? [];
  const child = spawn(launcher?.command ?? program, [...options, ...args], {
    cwd: folder,
    env: { ...commandVariables(), ...launcher?.environment, NO_COLOR: '1' },
    stdio: ['ignore', file.fd, file.fd],
  });
  await once(child, 'close');
  const said = await readFile(path, 'utf8');
  return said
    .split('\n')
    .filter((line) => !/^\s+at /.test(line))
    .join('\n')
    .replaceAll(` on ${hostname()} (`, ' on host-0 (');
}

/** Returns the lines without what differs from run to run. They are sorted, because ranks print at the same time. */
function comparable(text: string): readonly string[] {
  return (
    text
      .trimEnd()
      .split('\n')
      // A host that comes first may print that it waits.
      .filter((line) => !line.startsWith('Waiting up to '))
      .map((line) =>
        line.replaceAll(/\d+(?:[.:,-]\d+)*(?: (?:ns|µs|ms|s|min|B|[KMG]i?B)\b)?/g, '0'),
      )
      .toSorted()
  );
}

import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Command, fixture } from './command.ts';

let cwd = '';
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-elastic-'));
});

const elastic = fixture('elastic.ts');
const ended = /rank 0 ends with (.*)$/m;
let undisturbed = '';

beforeAll(async () => {
  const run = new Command(['run', '--nproc', '2', elastic, '8'], {
    cwd: await mkdtemp(join(tmpdir(), 'shardwise-elastic-')),
  });
  expect(await run.ended(), run.output).toBe(0);
  undisturbed = ended.exec(run.stdout)?.[1] ?? '';
});

describe('--max-restarts', () => {
  it.each([
    ['threads', 'throw', 'RangeError: planned at step 5'],
    ['processes', 'kill', 'its process was ended by SIGKILL'],
  ])('starts %s again from the last checkpoint, to the same end', async (form, how, reason) => {
    const args = ['run', '--nproc', '2', '--ranks', form, '--max-restarts', '2'];
    const run = new Command([...args, '--run-dir', 'out', elastic, '8', '1', `1:5:${how}`, '2'], {
      cwd,
    });
    expect(await run.ended(), run.output).toBe(0);
    expect(ended.exec(run.stdout)?.[1]).toBe(undisturbed);
    for (const restart of [1, 2]) {
      expect(run.stderr).toContain(
        `Rank 1 failed: ${reason}. Starting again (restart ${restart} of 2) with 2 ranks ` +
          `from ${join('out', 'checkpoints', 'step-000004')}.`,
      );
      expect(run.stdout).toContain(`restart ${restart}, after step 4`);
    }
    const report = await readFile(join(cwd, 'out', 'report.html'), 'utf8');
    expect(report).toContain(`Rank 1 failed: ${reason} (then 2 ranks)`);
    expect(report).toContain('finished</span>');
    const log = await readFile(join(cwd, 'out', 'logs', 'rank-1.log'), 'utf8');
    expect(log.match(/^rank 1 of 2/gm)).toHaveLength(3);
  });

  it('starts from the beginning where there is no checkpoint', async () => {
    const args = ['run', '--nproc', '2', '--max-restarts', '1', elastic, '4', '1', '0:2:throw'];
    const run = new Command(args, { cwd });
    expect(await run.ended(), run.output).toBe(0);
    expect(run.stderr).toContain('with 2 ranks from the start.');
    expect(run.stdout).toContain('restart 1, after step 0');
  });

  it.each([
    ['can not be read', 'state.json', /Reading \S+state\.json: it is no JSON/, 1],
    [
      'has a wrong byte, which only who loads it sees',
      'model-00001-of-00002.safetensors',
      /Reading \S+safetensors: expected CRC-32/,
      2,
    ],
  ])('takes the checkpoint before where the latest %s', async (_, file, found, restarts) => {
    const args = ['run', '--nproc', '2', '--max-restarts', '3', '--run-dir', 'out'];
    const run = new Command([...args, elastic, '8', '1', `0:5:${file}`, '1'], { cwd });
    expect(await run.ended(), run.output).toBe(0);
    expect(ended.exec(run.stdout)?.[1]).toBe(undisturbed);
    const folder = join('out', 'checkpoints');
    const [notice = ''] = /^The checkpoint \S+ is passed over\. .*$/m.exec(run.stderr) ?? [];
    expect(notice, run.output).toContain(join(folder, 'step-000004'));
    expect(notice).toMatch(found);
    const from = join(folder, 'step-000002');
    expect(run.stderr).toContain(`(restart ${restarts} of 3) with 2 ranks from ${from}.`);
    expect(run.stderr).not.toContain(`restart ${restarts + 1}`);
    expect(run.stdout).toContain(`restart ${restarts}, after step 2`);
  });

  it('ends where no checkpoint is whole, and does not start from the beginning', async () => {
    const args = ['run', '--nproc', '2', '--max-restarts', '3', '--run-dir', 'out'];
    const run = new Command([...args, elastic, '8', '1', '0:3:state.json', '9'], { cwd });
    expect(await run.ended()).toBe(1);
    expect(run.stderr).toContain('No checkpoint is whole');
    expect(run.stderr).not.toContain('Starting again');
    expect(run.stderr).toContain('Rank 0 failed first: RangeError: planned at step 3');
  });

  it.each(['threads', 'processes'])('does not repeat a mistake of %s', async (form) => {
    await writeFile(
      join(cwd, 'train.mjs'),
      `import { readFile } from 'node:fs/promises'; console.log('begins'); await readFile('absent.txt');`,
    );
    const args = ['run', '--ranks', form, '--max-restarts', '3', 'train.mjs'];
    const run = new Command(args, { cwd });
    expect(await run.ended()).toBe(1);
    expect(run.stdout.match(/^begins$/gm)).toHaveLength(1);
    expect(run.stderr).toContain("ENOENT: no such file or directory, open 'absent.txt'");
    expect(run.stderr).toContain(
      'Not started again: what fails before the first step would fail again',
    );
  });

  it('is a budget: then the run fails as it does without', async () => {
    const args = ['run', '--nproc', '2', '--ranks', 'processes', '--max-restarts', '1'];
    const run = new Command([...args, '--run-dir', 'out', elastic, '8', '1', '1:5:throw', '9'], {
      cwd,
    });
    expect(await run.ended()).toBe(1);
    expect(run.stderr).toMatch(/^Rank 1 failed first: RangeError: planned at step 5$/m);
    expect(run.stderr).toContain('Rank 1 is missing first, at call #');
    expect(run.stderr).toContain('The restart budget is used up: 1 of 1\n');
    expect(run.stdout).toMatch(/^Continue: .*--resume out\/checkpoints\/step-000004 /m);
  });
});

import { mkdtemp, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deepspeed } from '@shardwise/compat';
import { init, manualSeed, nn, ones, type RankContext } from 'shardwise';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

let context: RankContext;
beforeAll(async () => {
  context = await init();
});
afterAll(() => context.close());

const config = {
  train_micro_batch_size_per_gpu: 4,
  gradient_accumulation_steps: 2,
  optimizer: { type: 'AdamW', params: { lr: 0.01 } },
};

/** Trains for some updates. Returns the losses of all passes, the mean of each update, and what was printed. */
async function train(
  keys: object,
  updates: number,
): Promise<{ losses: number[]; means: number[]; printed: string[] }> {
  const printed: string[] = [];
  const log = vi.spyOn(console, 'log').mockImplementation((text) => {
    printed.push(String(text));
  });
  manualSeed(2);
  const { engine } = await deepspeed.initialize({
    model: new nn.Sequential(new nn.Linear(3, 8), new nn.Tanh(), new nn.Linear(8, 1)),
    config: { ...config, ...keys },
    context,
  });
  const losses: number[] = [];
  for (let pass = 0; pass < 2 * updates; pass++) {
    const loss = engine
      .forward(ones([4, 3]).mul(pass + 1))
      .square()
      .mean();
    engine.backward(loss);
    await engine.step();
    losses.push(await loss.item());
  }
  await engine.destroy();
  log.mockRestore();
  const means = Array.from(
    { length: updates },
    (_, at) => ((losses[2 * at] ?? 0) + (losses[2 * at + 1] ?? 0)) / 2,
  );
  return { losses, means, printed };
}

const temporary = (): Promise<string> => mkdtemp(join(tmpdir(), 'measurements-'));

describe('wall_clock_breakdown', () => {
  it('prints the times of forward passes, backward passes and the update', async () => {
    const { printed } = await train({ wall_clock_breakdown: true }, 3);
    expect(printed).toHaveLength(3);
    for (const line of printed) {
      expect(line).toMatch(/^time \(ms\) \| fwd: \d+\.\d\d \| bwd: \d+\.\d\d \| step: \d+\.\d\d$/);
    }
  });

  it('prints them once in steps_per_print updates', async () => {
    const { printed } = await train({ wall_clock_breakdown: true, steps_per_print: 2 }, 4);
    expect(printed.filter((line) => line.startsWith('time'))).toHaveLength(2);
    expect(printed.filter((line) => line.startsWith('step=2,'))).toHaveLength(1);
  });

  it.each([0, 2, 3])('does not change the losses of stage %i', async (stage) => {
    const zero = { zero_optimization: { stage }, fp16: { enabled: true, initial_scale_power: 4 } };
    const { losses } = await train({ ...zero, wall_clock_breakdown: true }, 3);
    expect(losses).toEqual((await train(zero, 3)).losses);
  });
});

describe('flops_profiler', () => {
  it('prints the profile of one update, and no other', async () => {
    const { printed, losses } = await train({ flops_profiler: { enabled: true } }, 3);
    expect(printed).toHaveLength(1);
    const [profile = ''] = printed;
    // Two products of 4 rows: 2 * 4 * 3 * 8 and 2 * 4 * 8, as well as Tanh, which counts nothing.
    expect(profile).toMatch(/fwd MACs per rank: +128 MACs\n/);
    expect(profile).toMatch(/fwd latency: +[\d.]+ (?:us|ms)\n/);
    expect(profile).toMatch(/bwd latency: +[\d.]+ (?:us|ms)\n/);
    expect(profile).toContain('(0): Linear(');
    expect(losses).toEqual((await train({}, 3)).losses);
  });

  it('writes to output_file what module_depth, top_modules and detailed ask for', async () => {
    const path = join(await temporary(), 'profile.txt');
    const section = {
      enabled: true,
      profile_step: 2,
      module_depth: 1,
      top_modules: 2,
      detailed: false,
      output_file: path,
    };
    const { printed } = await train({ flops_profiler: section }, 4);
    expect(printed).toEqual([]);
    const profile = await readFile(path, 'utf8');
    expect(profile).toContain('Top 2 modules');
    expect(profile).toContain("depth 1:\n    params      - {'Linear': '41', 'Tanh': '0'}");
    expect(profile).not.toContain('(0): Linear(');
  });

  it('says before the update which output_file cannot be written, and prints if its name is empty', async () => {
    const path = await temporary();
    const section = { enabled: true, profile_step: 0 };
    const failed = train({ flops_profiler: { ...section, output_file: path } }, 1);
    await expect(failed).rejects.toThrow(/the file cannot be written: EISDIR/);
    const { printed } = await train({ flops_profiler: { ...section, output_file: '' } }, 1);
    expect(printed).toHaveLength(1);
  });
});

describe('csv_monitor', () => {
  it('writes a file for each figure, as DeepSpeed does', async () => {
    const folder = await temporary();
    const section = { enabled: true, output_path: folder, job_name: 'job' };
    const keys = { csv_monitor: section, fp16: { enabled: true, initial_scale_power: 4 } };
    const { means } = await train(keys, 2);
    expect((await readdir(join(folder, 'job'))).toSorted()).toEqual([
      'Train_Samples_loss_scale.csv',
      'Train_Samples_lr.csv',
      'Train_Samples_train_loss.csv',
    ]);
    const textOf = (name: string): Promise<string> => readFile(join(folder, 'job', name), 'utf8');
    expect(await textOf('Train_Samples_lr.csv')).toBe('step,lr\r\n8,0.01\r\n16,0.01\r\n');
    expect(await textOf('Train_Samples_loss_scale.csv')).toContain('step,loss_scale\r\n8,16\r\n');
    const rows = (await textOf('Train_Samples_train_loss.csv')).trimEnd().split('\r\n');
    expect(rows.slice(1)).toEqual(means.map((mean, at) => `${8 * (at + 1)},${mean}`));
  });

  it('has the times of wall_clock_breakdown', async () => {
    const folder = await temporary();
    const section = { enabled: true, output_path: folder };
    await train({ csv_monitor: section, wall_clock_breakdown: true }, 1);
    const names = await readdir(join(folder, 'DeepSpeedJobName'));
    expect(names).toEqual(
      expect.arrayContaining(
        ['forward', 'backward', 'step'].map((part) => `Train_Samples_elapsed_time_ms_${part}.csv`),
      ),
    );
  });
});

describe('tensorboard', () => {
  it('writes an event file into the folder of the job', async () => {
    const folder = await temporary();
    await train({ tensorboard: { enabled: true, output_path: folder, job_name: 'job' } }, 2);
    const [name = '', ...others] = await readdir(join(folder, 'job'));
    expect(others).toEqual([]);
    expect(name).toMatch(/^events\.out\.tfevents\.\d{10}\./);
    const text = (await readFile(join(folder, 'job', name))).toString('latin1');
    expect(text.match(/Train\/Samples\/train_loss/g)).toHaveLength(2);
    expect(text.match(/Train\/Samples\/lr/g)).toHaveLength(2);
  });

  it('needs the sizes of batches, because it counts samples', async () => {
    const sizes = { train_micro_batch_size_per_gpu: null, gradient_accumulation_steps: null };
    await expect(train({ ...sizes, tensorboard: { enabled: true } }, 1)).rejects.toThrow(
      /tensorboard, which counts samples.*Write one of them/,
    );
  });
});

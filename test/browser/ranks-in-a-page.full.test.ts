import { expect, it } from 'vitest';
import { describePage, expectLosses, forEver, lossesOfOneRank, task } from './perform-tasks.ts';

describePage('ranks in the workers of a page', (perform) => {
  it('train as one rank does, on WebAssembly and shared memory, and say why there', async () => {
    const expected = await lossesOfOneRank();
    const found = await perform([
      task({ size: 1, strategy: 'none', device: 'auto' }),
      task({ size: 2, device: 'auto' }),
      task({ strategy: 'pipeline' }),
    ]);
    for (const report of found) {
      expect(report).toMatchObject({
        transport: 'threads',
        transportReason: 'workers can share memory here',
        device: 'wasm',
      });
      expectLosses(report, expected);
      expect(report.report.steps).toBe(expected.length);
      expect(report.report.loss).toBeCloseTo(expected.at(-1) ?? Number.NaN, 4);
      expect(report.report.html).toMatch(/^<!doctype html>[^]*finished[^]*<svg[^]*wasm: /);
    }
    expect(found.map(({ deviceReason }) => deviceReason)).toEqual([
      'WebGPU has no adapter here',
      '2 ranks would share one GPU',
      'it was asked for',
    ]);
  });

  it('stop after the same step, end at once, and hear who failed, also after seconds of computing', async () => {
    const [stopped, terminated, killed, failed] = await perform([
      task({ steps: forEver, act: 'stop' }),
      task({ steps: forEver, act: 'terminate' }),
      task({ steps: forEver, act: 'kill rank 1' }),
      task({ steps: forEver, act: 'fail rank 1' }),
    ]);
    expect(stopped?.ends).toMatchObject([{ status: 'closed' }, { status: 'closed' }]);
    expect(stopped?.report.html).toContain('<span class="chip stopped">');
    expect(terminated?.report.html).toContain('<span class="chip stopped">');
    expect(killed?.report.html).toContain('<span class="chip failed">');
    const [steps = [], others = []] = stopped?.losses ?? [];
    expect(steps.length).toBe(others.length);
    expect(terminated?.ends).toMatchObject([{ status: 'terminated' }, { status: 'terminated' }]);
    expect(killed?.ends).toMatchObject([
      {
        status: 'failed',
        name: 'CollectiveAbortedError',
        message: expect.stringMatching(
          /on rank 0: rank 1 of the world ended the group \(its worker was ended\)/,
        ),
        abortedBy: 1,
      },
      { status: 'killed' },
    ]);
    expect(failed?.ends).toMatchObject([
      {
        status: 'failed',
        message: expect.stringContaining('RangeError: a bug of the script'),
        abortedBy: 1,
      },
      { status: 'failed', name: 'RangeError', message: 'a bug of the script' },
    ]);
  });
});

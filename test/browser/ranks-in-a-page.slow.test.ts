import { expect, it } from 'vitest';
import { describePage, expectLosses, forEver, lossesOfOneRank, task } from './perform-tasks.ts';

describePage('ranks in the workers of a page', (perform) => {
  it('train as one rank does on 4 ranks, and in parts', async () => {
    const expected = await lossesOfOneRank();
    const found = await perform([task({ size: 4 }), task({ strategy: 'fsdp' })]);
    for (const report of found) expectLosses(report, expected);
  });

  it('post messages where the page is not isolated, and say so', async () => {
    const expected = await lossesOfOneRank();
    const [trained, killed] = await perform(
      [task({}), task({ steps: forEver, act: 'kill rank 1' })],
      { isolated: false },
    );
    expect(trained).toMatchObject({
      transport: 'ports',
      transportReason: expect.stringContaining('Cross-Origin-Opener-Policy'),
    });
    if (trained !== undefined) expectLosses(trained, expected);
    expect(killed?.ends).toMatchObject([{ status: 'failed', abortedBy: 1 }, { status: 'killed' }]);
  });

  it('train on WebGPU, alone and with others', async () => {
    const expected = await lossesOfOneRank();
    const tasks = [
      task({ size: 1, strategy: 'none', device: 'webgpu' }),
      task({ size: 2, strategy: 'ddp', device: 'webgpu' }),
      task({ size: 2, strategy: 'fsdp', device: 'webgpu' }),
    ];
    const found = await perform(tasks, { withWebGpu: true });
    expect(found).toHaveLength(3);
    for (const report of found) {
      expect(report).toMatchObject({ device: 'webgpu', deviceReason: 'it was asked for' });
      expectLosses(report, expected);
    }
  });
});

import { arange, manualSeed, nn, optim, randn, setRank, statistics } from '@shardwise/core';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { describe, expect, test } from 'vitest';
import { webgpu } from '../src/index.ts';

const reason = await reasonWithoutDevice(webgpu);

describe.skipIf(reason !== undefined)(
  `training steps after the fourth${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    test('compile nothing, bind and allocate no more, and hand each program over once', async () => {
      const device = await webgpu();
      setRank({ device });
      manualSeed(0);
      const model = new nn.TransformerEncoderLayer(32, 2, { dropout: 0, dimFeedforward: 64 });
      const places = new nn.Embedding(16, 32);
      const optimizer = new optim.AdamW([...model.parameters(), ...places.parameters()]);
      const step = async (): Promise<number> => {
        optimizer.zeroGrad();
        const loss = model
          .forward(randn([2, 16, 32]).add(places.forward(arange(16))))
          .square()
          .mean();
        loss.backward();
        await optimizer.step();
        return loss.item();
      };
      const observe = () => ({
        pipelines: device.compiledPipelines,
        bindGroups: device.bindGroups,
        bytes: device.usage().bytesInUse,
        programs: statistics().programsCompiled,
      });
      // Steps alternate between two sets of buffers for their results.
      for (let i = 0; i < 4; i++) await step();
      const before = observe();
      const [submissions, runs] = [device.submissions, statistics().plansRun];
      for (let i = 0; i < 5; i++) await step();
      expect(observe()).toEqual(before);
      expect(device.submissions - submissions).toBe(statistics().plansRun - runs);
      device.close();
    }, 120_000);
  },
);

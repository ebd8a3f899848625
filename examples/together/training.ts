import { data, dist, fromArray, manualSeed, nn, optim, type RankContext } from 'shardwise';
import type { RunMember } from 'shardwise/together';
import { GPT } from '../gpt/model.ts';

/** How a member trains. All members must give the same `contextLength`. */
export interface TrainingOptions {
  readonly context: Pick<RankContext, 'report' | 'shouldStop'>;
  readonly member: RunMember;
  readonly text: Uint8Array;
  readonly steps: number;
  /** The seconds between two rounds. Each makes as many updates in them as it can, and counts by its tokens. */
  readonly every: number;
  readonly batchSize: number;
  readonly contextLength: number;
  readonly learningRate: number;
}

export interface Trained {
  readonly step: number;
  readonly model: GPT;
  readonly optimizer: optim.AdamW;
  readonly outer: dist.OuterState;
}

const vocabularySize = 256;

/** Trains a byte-level GPT with the other members, in Node and in a page. */
export async function train({ context, member, ...options }: TrainingOptions): Promise<Trained> {
  const { text, steps, every, batchSize, contextLength } = options;
  const model = new GPT({ vocabularySize, contextLength, layers: 2, heads: 4, channels: 64 });
  const rounds = { every: { seconds: every }, weighted: true } as const;
  const strategy = dist.diloco({ ...rounds, bits: 4, members: member });
  const trained = await dist.parallelize(model, strategy);
  const optimizer = new optim.AdamW(model.parameters(), { lr: options.learningRate });
  // Each member draws other windows of its text.
  manualSeed(member.number);
  const loader = new data.DataLoader<data.TextSample>({
    dataset: new data.TextDataset(text, { contextLength }),
    batchSize,
    shuffle: true,
    dropLast: true,
  });
  let step = 0;
  let isOver = false;
  while (!isOver) {
    for await (const { x, y } of loader) {
      optimizer.zeroGrad();
      const logits = trained.forward(fromArray(x)).reshape([-1, vocabularySize]);
      const loss = nn.functional.crossEntropy(logits, fromArray(y).reshape([-1]));
      loss.backward();
      strategy.outer.countTokens(batchSize * contextLength);
      // After some seconds, this waits for what the others have learned meanwhile.
      await optimizer.step();
      step++;
      const value = await loss.item();
      member.report({ loss: value, samples: batchSize });
      context.report({ step, loss: value, tokens: batchSize * contextLength });
      isOver = step === steps || (await context.shouldStop(step));
      if (isOver) break;
    }
  }
  return { step, model, optimizer, outer: strategy.outer };
}

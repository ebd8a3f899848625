/**
 * Trains a byte-level GPT together with others, who come and go. Start a coordinator, and then members on any machines
 * that reach it:
 *
 *   shardwise coordinate --token-file run.token
 *   shardwise run examples/together/train.ts --token-file run.token --name laptop
 *   shardwise run examples/together/train.ts --token-file run.token --name desk --url ws://coordinator:8970
 */
import { readTextFiles } from '@shardwise/core/node';
import { data, dist, fromArray, init, manualSeed, nn, optim } from 'shardwise';
import { join } from 'shardwise/together';
import { GPT } from '../gpt/model.ts';
import { readOptions } from './options.ts';

const { crossEntropy } = nn.functional;
const { url, token, name, ...options } = await readOptions(process.argv.slice(2));
const contextLength = options['context-length'];
const batchSize = options['batch-size'];
const vocabularySize = 256;

const context = await init();
const member = await join({ url, token, name });
const dataset = new data.TextDataset(await readTextFiles(options.data), { contextLength });

const model = new GPT({ vocabularySize, contextLength, layers: 2, heads: 4, channels: 64 });
const strategy = dist.diloco({ every: options.every, bits: 4, members: member });
const trained = await dist.parallelize(model, strategy);
const optimizer = new optim.AdamW(model.parameters(), { lr: options['learning-rate'] });

// Each member draws other windows of the text.
manualSeed(member.number);
const loader = new data.DataLoader<data.TextSample>({
  dataset,
  batchSize,
  shuffle: true,
  dropLast: true,
});

let step = 0;
while (step < options.steps && !(await context.shouldStop(step))) {
  for await (const { x, y } of loader) {
    optimizer.zeroGrad();
    const logits = trained.forward(fromArray(x)).reshape([-1, vocabularySize]);
    const loss = crossEntropy(logits, fromArray(y).reshape([-1]));
    loss.backward();
    // After every few updates, this waits for what the others have learned meanwhile.
    await optimizer.step();
    step++;
    const value = await loss.item();
    member.report({ loss: value, samples: batchSize });
    context.report({ step, loss: value, tokens: batchSize * contextLength });
    if (step === options.steps || (await context.shouldStop(step))) break;
  }
}
member.close();
console.log(`${name}: ${step} updates, ${strategy.outer.outerSteps} rounds`);
await context.saveCheckpoint({ step, model, optimizer, states: { outer: strategy.outer } });
await context.close();

/**
 * Trains a byte-level GPT together with others, who come and go. Start a coordinator, and then members on any machines
 * that reach it:
 *
 *   shardwise coordinate --token-file run.token
 *   shardwise run examples/together/train.ts --token-file run.token --name laptop
 *   shardwise run examples/together/train.ts --token-file run.token --name desk --url ws://coordinator:8970
 *
 * `npm run dev -w examples/together` serves a page that joins in the same way.
 */
import { readTextFiles } from '@shardwise/core/node';
import { init } from 'shardwise';
import { join } from 'shardwise/together';
import { readOptions } from './options.ts';
import { train } from './training.ts';

const { url, token, name, data, steps, every, ...sizes } = await readOptions(process.argv.slice(2));
const context = await init();
const member = await join({ url, token, name });
const { step, model, optimizer, outer } = await train({
  context,
  member,
  text: await readTextFiles(data),
  steps,
  every,
  batchSize: sizes['batch-size'],
  contextLength: sizes['context-length'],
  learningRate: sizes['learning-rate'],
});
member.close();
console.log(`${name}: ${step} updates, ${outer.outerSteps} rounds`);
await context.saveCheckpoint({ step, model, optimizer, states: { outer } });
await context.close();

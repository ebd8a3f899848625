// A member in a page. It trains as train.ts does, on the visitor's text.
import { init } from 'shardwise/browser';
import { join } from 'shardwise/together';
import { train } from './training.ts';

/** What the visitor has filled in. */
export interface JoinForm {
  readonly url: string;
  readonly token: string;
  readonly name: string;
  readonly text: string;
}

const context = await init();
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the page has posted it
const { url, token, name, text } = context.data as JoinForm;
const member = await join({ url, token, name });
await train({
  context,
  member,
  text: new TextEncoder().encode(text),
  // The visitor stops it.
  steps: Infinity,
  every: 10,
  batchSize: 8,
  contextLength: 64,
  learningRate: 1e-3,
});
member.close();
await context.close();

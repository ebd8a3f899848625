import { data, fromArray, nn, noGrad } from 'shardwise';
import type { GPT } from '../../examples/gpt/model.ts';
import type { Job } from './job.ts';

const WINDOWS = 256;
const BATCH_SIZE = 32;

/** The mean loss of windows that are spread over the text. They are the same for all models. */
export async function validationLoss(
  model: GPT,
  { text, model: { contextLength } }: Job,
): Promise<number> {
  const dataset = new data.TextDataset(text.validation, { contextLength });
  const place = (index: number): number =>
    Math.floor((index * (dataset.length - 1)) / (WINDOWS - 1));
  model.eval();
  const losses: number[] = [];
  for (let first = 0; first < WINDOWS; first += BATCH_SIZE) {
    const samples = Array.from({ length: BATCH_SIZE }, (_, at) => dataset.get(place(first + at)));
    const { x, y } = data.collate(samples);
    const loss = noGrad(() =>
      nn.functional.crossEntropy(model.forward(fromArray(x)), fromArray(y)),
    );
    losses.push(await loss.item());
  }
  return losses.reduce((sum, loss) => sum + loss, 0) / losses.length;
}

import { elementCount } from '../../base/shape.ts';
import type { Backend, DeviceBuffer } from '../../spec/backend.ts';
import { dtypes } from '../../spec/dtype.ts';
import { ShapeError } from '../../spec/errors.ts';
import type { Message } from './communicate.ts';
import type { PlanStep } from './plan-step.ts';
import { bufferOf, bytesOf, type Run } from './run-memory.ts';

/** The message of a collective that sends rows. Throws ShapeError if there are fewer rows than the counts say. */
export async function rowsOf(run: Run, id: number): Promise<Message> {
  const [x = -1, sent = -1, received = -1] = run.plan.graph.values[id]?.inputs ?? [];
  const splitsOf = async (counts: number, of: number): Promise<number[]> => {
    const bytes = await bytesOf(run.backend, bufferOf(run, counts));
    const [rows = 0, ...row] = run.shapes?.[of] ?? run.plan.graph.values[of]?.shape ?? [];
    const numbers = [...new Int32Array(bytes.slice().buffer)];
    const sum = numbers.reduce((total, count) => total + count, 0);
    if (!(sum <= rows) || numbers.some((count) => count < 0)) throw rowsError(rows, numbers);
    return numbers.map((count) => count * elementCount(row));
  };
  const inputSplits = await splitsOf(sent, x);
  const outputSplits = await splitsOf(received, id);
  const { dtype = 'f32' } = run.plan.graph.values[id] ?? {};
  const bytesFor = (splits: readonly number[]): number =>
    splits.reduce((sum, elements) => sum + elements, 0) * dtypes[dtype].bytes;
  const [input, output] = [bufferOf(run, x), bufferOf(run, id)];
  const [sentBytes, receivedBytes] = [bytesFor(inputSplits), bytesFor(outputSplits)];
  const spare = output.byteLength - receivedBytes;
  if (spare > 0) clear(run.backend, output.subBuffer(receivedBytes, spare));
  return {
    input: input.subBuffer(0, sentBytes),
    output: output.subBuffer(0, receivedBytes),
    splits: { inputSplits, outputSplits },
  };
}

function clear(backend: Backend, buffer: DeviceBuffer): void {
  const mapped = backend.map(buffer);
  if (mapped !== undefined) mapped.fill(0);
  else backend.write(buffer, new Uint8Array(buffer.byteLength));
}

function rowsError(rows: number, counts: readonly number[]): ShapeError {
  return new ShapeError(
    {
      asked: `allToAllRows of ${rows} rows`,
      found: `counts ${counts.join(', ')} for the ranks`,
      todo: 'Give counts that add up to no more than the rows: exchangeRows() has the ranks agree on them, and expertParallel({ tokens }) says how many a rank has at most',
    },
    { rows, counts },
  );
}

/** Reads a number of rows that the run has computed. Throws ShapeError if there are not that many rows. */
export async function readSize(
  run: Run,
  { values: [id = -1], symbol, max }: Extract<PlanStep, { kind: 'size' }>,
): Promise<void> {
  const bytes = await bytesOf(run.backend, bufferOf(run, id));
  const [rows = 0] = new Int32Array(bytes.slice().buffer);
  if (rows < 0 || rows > max) {
    throw new ShapeError(
      {
        asked: `takeRows of ${rows} rows`,
        found: `there are ${max}`,
        todo: 'Check how the number of rows is computed',
      },
      { rows, max },
    );
  }
  run.sizes = run.sizes.with(symbol, rows);
  run.shapes = run.plan.shapes?.at(run.sizes) ?? null;
}

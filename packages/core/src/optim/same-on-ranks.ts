import { noGrad } from '../graph/create-node.ts';
import { currentSession } from '../rank.ts';
import { ConfigError } from '../spec/errors.ts';
import { allGather } from '../tensor/collectives.ts';
import { fromData } from '../tensor/create.ts';

/**
 * Throws ConfigError on every rank if ranks have different numbers. `asked` is the operation in the message. This is a
 * collective over all axes of the mesh.
 */
export async function requireSameOnRanks(asked: string, value: number): Promise<void> {
  const axes = currentSession().mesh.axes.filter(({ size }) => size > 1);
  if (axes.length === 0) return;
  const words = new Int32Array(Float64Array.of(value).buffer);
  const all = noGrad(() =>
    axes.reduce((each, { name }) => allGather(each, name, 0), fromData(words, [1, 2], 'i32')),
  );
  const numbers = new Float64Array(Int32Array.from(await all.data(), Number).buffer);
  const other = numbers.find((number) => !Object.is(number, numbers[0]));
  if (other === undefined) return;
  throw new ConfigError(
    {
      asked,
      found: `ranks that have different numbers, among them ${numbers[0]} and ${other}`,
      todo: "Give all ranks the same one: the mean, as by allReduce(loss, 'dp', { reduce: 'avg' })",
    },
    { numbers: [...numbers] },
  );
}

import { startRanks } from 'shardwise/browser';
import {
  type ContestantName,
  contestants,
  type PageTurns,
  type RankOrder,
  type RankTask,
  type RankTurn,
  type TurnsTask,
} from './contestants.ts';

/** The bytes of memory for the tensors of a rank. */
const arenaBytes = 2 ** 28;

/** Ranks that wait for their turn. */
interface Waiting {
  readonly transport: string;
  round(): Promise<readonly RankTurn[]>;
  close(): Promise<void>;
}

async function start(contestant: ContestantName, { model, steps }: TurnsTask): Promise<Waiting> {
  const size = contestants[contestant];
  const channel = new BroadcastChannel(contestant);
  const order = (what: RankOrder): void => channel.postMessage(what);
  /** The values that the ranks have sent since they were asked. */
  let answers: unknown[] = [];
  let all = Promise.withResolvers<unknown[]>();
  const run = await startRanks({
    size,
    script: () => new Worker(new URL('./rank.ts', import.meta.url), { type: 'module' }),
    device: 'wasm',
    arenaBytes,
    data: { contestant, model, steps } satisfies RankTask,
    onValue: (value) => {
      answers.push(value);
      if (answers.length === size) all.resolve(answers);
    },
    onEnd: ({ error }) => {
      if (error !== undefined) all.reject(new Error(error.message));
    },
  });
  await all.promise;
  return {
    transport: run.transport.kind,
    round: async () => {
      answers = [];
      all = Promise.withResolvers();
      order('round');
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the ranks of this page have sent them
      return (await all.promise) as RankTurn[];
    },
    close: async () => {
      order('close');
      await run.ended;
    },
  };
}

async function takeTurns(task: TurnsTask): Promise<PageTurns> {
  const turns: Record<ContestantName, (readonly RankTurn[])[]> = {
    one: [],
    together: [],
    apart: [],
  };
  const [one, together, apart] = [
    await start('one', task),
    await start('together', task),
    await start('apart', task),
  ];
  for (let round = 0; round < task.rounds; round++) {
    turns.one.push(await one.round());
    turns.together.push(await together.round());
    turns.apart.push(await apart.round());
  }
  for (const each of [one, together, apart]) await each.close();
  return { browser: navigator.userAgent, transport: together.transport, turns };
}

const post = (path: string, body: string): Promise<Response> =>
  fetch(path, { method: 'POST', body });

try {
  const task: TurnsTask = await (await fetch('/tasks')).json();
  await post('/result', JSON.stringify(await takeTurns(task)));
} catch (error) {
  await post('/failure', error instanceof Error ? error.message : String(error));
}

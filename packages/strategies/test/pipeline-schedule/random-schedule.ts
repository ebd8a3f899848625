import type { ComputeAction, Schedule, ScheduledAction, StageEdge } from '@shardwise/strategies';

/**
 * Draws a schedule that ranks can run. At each turn a rank takes one of the actions whose inputs are ready. Stages are
 * on random ranks, edges may skip stages, and backwards are whole or in halves.
 */
export function randomSchedule(random: () => number): { schedule: Schedule; edges: StageEdge[] } {
  const upTo = (most: number): number => 1 + Math.floor(random() * most);
  const ranks = upTo(4);
  const stages = ranks + upTo(4) - 1;
  const microbatches = upTo(4);
  const rankOfStage = Array.from({ length: stages }, (_, stage) =>
    stage < ranks ? stage : upTo(ranks) - 1,
  );
  const edges = Array.from({ length: stages }, (_, from) => from).flatMap((from) =>
    Array.from({ length: stages - from - 1 }, (_, index) => from + 1 + index)
      .filter((to) => to === from + 1 || random() < 0.3)
      .map((to) => ({ from, to, gradient: random() < 0.8 })),
  );
  const actions: ScheduledAction[][] = Array.from({ length: ranks }, () => []);
  const done = new Set<string>();
  const key = (kind: string, stage: number, microbatch: number) => `${kind} ${stage} ${microbatch}`;
  let left = Array.from({ length: stages * microbatches }, (_, index): ComputeAction[] => {
    const place = { stage: index % stages, microbatch: Math.floor(index / stages) };
    const halves: ComputeAction[] = [
      { kind: 'inputGradient', ...place },
      { kind: 'weightGradient', ...place },
    ];
    const backward: ComputeAction[] = random() < 0.5 ? [{ kind: 'backward', ...place }] : halves;
    return [{ kind: 'forward', ...place }, ...backward];
  });
  const isReady = ({ kind, stage, microbatch }: ComputeAction): boolean => {
    if (kind === 'weightGradient') return true;
    return kind === 'forward'
      ? edges.every(({ from, to }) => to !== stage || done.has(key('forward', from, microbatch)))
      : edges.every(
          ({ from, to, gradient }) =>
            from !== stage || !gradient || done.has(key('gradient', to, microbatch)),
        );
  };
  while (left.length > 0) {
    const ready = left.filter(([first]) => first !== undefined && isReady(first));
    const [action] = ready[Math.floor(random() * ready.length)] ?? [];
    if (action === undefined) throw new Error('nothing is ready');
    actions[rankOfStage[action.stage] ?? 0]?.push(action);
    const isForward = action.kind === 'forward';
    done.add(key(isForward ? 'forward' : 'gradient', action.stage, action.microbatch));
    left = left
      .map((rest) => (rest[0] === action ? rest.slice(1) : rest))
      .filter((rest) => rest.length > 0);
  }
  const schedule: Schedule = {
    name: 'random',
    ranks,
    stages,
    microbatches,
    forwardOnly: false,
    rankOfStage,
    actions,
  };
  return { schedule, edges };
}

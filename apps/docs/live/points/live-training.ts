import { defineComponent, h, ref, type PropType, type VNode } from 'vue';
import { choice, slider } from '../../explorers/controls.ts';
import { percentText } from '../../explorers/quantities.ts';
import { useKeptRuns } from '../kept-runs.ts';
import type { LiveState } from '../live-run.ts';
import { useLiveRun } from '../use-live-run.ts';
import { fitDrawing } from './fit-drawing.ts';
import { type PointLook, type PointTask, sineRows, spiralRows } from './point-task.ts';

const STEPS = 200;

/** Trains ranks of this page on a sine or two spirals. */
export const LiveTraining = defineComponent({
  name: 'LiveTraining',
  props: {
    model: { type: String as PropType<PointTask['model']>, default: 'spirals' },
    size: { type: Number, default: 2 },
    strategy: { type: String as PropType<PointTask['strategy']>, default: 'ddp' },
  },
  setup(props) {
    const model = ref<PointTask['model']>(props.model);
    const strategy = ref<PointTask['strategy']>(props.strategy);
    const size = ref(props.size);
    const seed = ref(1);
    const { state, frame } = useLiveRun<PointLook>({
      title: 'Training in this page',
      size,
      options: () => ({
        size: size.value,
        steps: STEPS,
        seed: seed.value,
        task: { model: model.value, strategy: strategy.value } satisfies PointTask,
        script: () => new Worker(new URL('./point-rank.ts', import.meta.url), { type: 'module' }),
      }),
    });
    const runs = useKeptRuns(state, {
      name: () =>
        `${model.value}, ${strategy.value}, ${size.value} ${size.value === 1 ? 'rank' : 'ranks'}, seed ${seed.value}`,
      steps: STEPS,
      units: { name: 'rows', perStep: sineRows().count },
    });

    return (): VNode =>
      frame(
        [
          choice('Task', model, { 'two spirals': 'spirals', sine: 'sine' } as const),
          choice('Strategy', strategy, ['ddp', 'zero-2', 'fsdp'] as const),
          choice('Ranks', size, [1, 2, 3, 4, 6, 8]),
          slider('Seed', seed, { min: 1, max: 20 }),
        ],
        [
          h('div', { class: 'two' }, [
            h('figure', [
              h(
                'figcaption',
                model.value === 'sine'
                  ? 'Points, and what is learned'
                  : `Points by rank, and the boundary${rightText(state.value)}`,
              ),
              fitDrawing(
                model.value,
                size.value,
                state.value?.ranks[0]?.snapshot?.look.values ?? [],
              ),
            ]),
            runs.chart({ title: 'Loss', isLogarithmic: true }),
          ]),
          h('div', { class: 'controls' }, [runs.control()]),
          runs.comparison(),
        ],
      );
  },
});

/** Says how many of all points the model assigns to the right spiral. Empty until all ranks have reported it. */
function rightText(state: LiveState<PointLook> | undefined): string {
  const looks = state?.ranks.map(({ snapshot }) => snapshot?.look.right) ?? [];
  if (looks.length === 0 || looks.includes(undefined)) return '';
  const right = looks.reduce<number>((sum, each) => sum + (each ?? 0), 0);
  return `: ${percentText(right / spiralRows().count)} of points are right`;
}

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
          h('div', { class: 'beside' }, [
            h('figure', [
              h('figcaption', model.value === 'sine' ? 'Points and model' : 'Points and boundary'),
              fitDrawing(
                model.value,
                size.value,
                state.value?.ranks[0]?.snapshot?.look.values ?? [],
              ),
              h('p', { class: 'figure-note' }, fitText(model.value, state.value)),
            ]),
            runs.chart({
              title: 'Loss',
              isLogarithmic: true,
              yRange: [model.value === 'sine' ? 0.0001 : 0.001, 1],
            }),
          ]),
          h('div', { class: 'controls' }, [runs.control()]),
          runs.comparison(),
        ],
      );
  },
});

/** Says how good the model is, or what the drawing shows until all ranks have reported it. */
function fitText(model: PointTask['model'], state: LiveState<PointLook> | undefined): string {
  if (model === 'sine') return 'The line is what the model has learned.';
  const looks = state?.ranks.map(({ snapshot }) => snapshot?.look.right) ?? [];
  if (looks.length === 0 || looks.includes(undefined)) return 'A shape is the rank of a point.';
  const right = looks.reduce<number>((sum, each) => sum + (each ?? 0), 0);
  return `${percentText(right / spiralRows().count)} of points are right.`;
}

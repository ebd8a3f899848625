import {
  f32,
  FunctionBuilder,
  i32,
  type Local,
  memory,
  usize,
  v128,
} from '@shardwise/wasm-assembler';

type Address = Local<'usize'>;

const ELEMENT_BYTES = 4;
const VECTOR_BYTES = 16;

/**
 * Writes the kernel that packs a matrix of f32 in panels of `panelLanes` lanes. The elements of a panel that are
 * multiplied at the same time lie together. Lanes that do not exist become zeros. Parameters: lanes, depth, bytes from
 * lane to lane, bytes from one step of the depth to the next, source, target. `areNeighbours` says that the lanes are
 * adjacent in memory.
 */
export function packPanels(panelLanes: number, areNeighbours: boolean): FunctionBuilder {
  const fn = new FunctionBuilder(6);
  const parameters = [0, 1, 2, 3, 4, 5].map((index) => fn.parameter(index));
  const [lanes, depth, laneBytes, stepBytes, source, target] = parameters;
  if (!lanes || !depth || !laneBytes || !stepBytes || !source || !target) {
    throw new RangeError('packing has six parameters');
  }
  const panel = usize.const(panelLanes);
  const from = fn.let(source);
  const to = fn.let(target);
  const left = fn.let(lanes);
  const step = fn.let(usize.const(0));
  const place = fn.let(usize.const(0));
  fn.while(usize.geU(left, panel), () => {
    fn.set(place, from);
    fn.set(step, usize.const(0));
    fn.forSteps(step, 1, depth, () => {
      if (areNeighbours) copyVectors(fn, place, to, panelLanes);
      else copyLanes(fn, place, laneBytes, to, panelLanes);
      fn.set(place, usize.add(place, stepBytes));
      fn.set(to, usize.add(to, usize.const(panelLanes * ELEMENT_BYTES)));
    });
    fn.set(from, usize.add(from, usize.mul(panel, laneBytes)));
    fn.set(left, usize.sub(left, panel));
  });
  fn.if(usize.ltU(usize.const(0), left), () => {
    const panelBytes = usize.const(panelLanes * ELEMENT_BYTES);
    fn.do(memory.fill(to, i32.const(0), usize.mul(depth, panelBytes)));
    const lane = fn.let(usize.const(0));
    const at = fn.let(to);
    fn.forSteps(lane, 1, left, () => {
      fn.set(place, from);
      fn.set(at, usize.add(to, usize.shl(lane, usize.const(2))));
      fn.set(step, usize.const(0));
      fn.forSteps(step, 1, depth, () => {
        fn.do(f32.store(at, f32.load(place)));
        fn.set(place, usize.add(place, stepBytes));
        fn.set(at, usize.add(at, panelBytes));
      });
      fn.set(from, usize.add(from, laneBytes));
    });
  });
  return fn;
}

function copyVectors(fn: FunctionBuilder, from: Address, to: Address, lanes: number): void {
  const vectors = Math.floor(lanes / 4);
  for (let vector = 0; vector < vectors; vector++) {
    const offset = vector * VECTOR_BYTES;
    fn.do(v128.store(to, v128.load(from, offset), offset));
  }
  for (let lane = vectors * 4; lane < lanes; lane++) {
    const offset = lane * ELEMENT_BYTES;
    fn.do(f32.store(to, f32.load(from, offset), offset));
  }
}

function copyLanes(
  fn: FunctionBuilder,
  from: Address,
  laneBytes: Address,
  to: Address,
  lanes: number,
): void {
  const at = fn.let(from);
  for (let lane = 0; lane < lanes; lane++) {
    fn.do(f32.store(to, f32.load(at), lane * ELEMENT_BYTES));
    if (lane + 1 < lanes) fn.set(at, usize.add(at, laneBytes));
  }
}

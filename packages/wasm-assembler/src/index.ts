export type { Code, ValueKind } from './code.ts';
export { encodeModule } from './encode-module.ts';
export { FunctionBuilder, type Local } from './function-builder.ts';
export {
  f32,
  f32x4,
  f64,
  f64x2,
  i16x8,
  i32,
  i32x4,
  i64,
  i8x16,
  memory,
  v128,
} from './instructions.ts';

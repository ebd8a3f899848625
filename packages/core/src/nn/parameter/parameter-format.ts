import type { HalfDType } from '../../spec/dtype.ts';
import type { HostData } from '../../tensor/host-data.ts';

/** The dtype of new parameters for which none is given, if it is not f32. */
export interface ParameterFormat {
  readonly dtype: HalfDType;
  /** Returns f32 numbers in the dtype. */
  readonly of: (data: HostData) => HostData;
}

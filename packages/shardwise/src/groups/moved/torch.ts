// Names that programs of PyTorch have at the root. They are in the group `nn`, and never were at the root here.
import { moved, type Moved } from './moved.ts';

/** @deprecated */ export const Module: Moved<'nn.Module'> = /* @__PURE__ */ moved('nn.Module');
/** @deprecated */ export type Module = Moved<'nn.Module'>;
/** @deprecated */ export const Parameter: Moved<'nn.Parameter'> =
  /* @__PURE__ */ moved('nn.Parameter');
/** @deprecated */ export type Parameter = Moved<'nn.Parameter'>;

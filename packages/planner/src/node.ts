export { openCluster, openModel, openPlan } from './files/open.ts';

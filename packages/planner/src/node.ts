export { openCluster, openModel, openPlan, openTrace } from './files/open.ts';
